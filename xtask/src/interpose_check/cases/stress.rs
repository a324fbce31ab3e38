//! stress-ng: each stressor of six classes, by itself for a second.

use crate::interpose_check::case::Case;

const CLASSES: [&str; 6] = ["os", "vm", "memory", "scheduler", "pipe-io", "interrupt"];

/// What would change the machine, or takes all of its memory or of the room on its disk (`forkheavy`, `resources`) to
/// see what happens. With `mmapfork`, which fills half of it, half of the memory of a class is enough for all others.
const LEFT_OUT: &str = "cpu-online|forkheavy|memhotplug|mmapfork|module|oom-pipe|reboot|resources|swap|pageswap|\
    bigheap|brk|watchdog|ramfs|tmpfs";

/// How long a stressor may take. `stream` looks at the time once it has gone through all its memory some times: within
/// half of that memory it takes 31 s.
const STRESSOR_SECONDS_MAX: u32 = 90;

/// The exit code of each stressor, as it is with the smallest work that it can do. Older versions say `pipe` for
/// `pipe-io`.
fn script(class: &str) -> String {
    let old = class.trim_end_matches("-io");
    format!(
        "names=$(for class in {class} {old}; do stress-ng --class $class? 2> /dev/null; done | \
         sed -n 's/.*stressors: *//p' | head -1 | tr ' ' '\\n' | grep -v -x -E '{LEFT_OUT}'); \
         [ -n \"$names\" ] || exit 99; for name in $names; do \
         timeout -k 1 {STRESSOR_SECONDS_MAX} stress-ng --quiet --$name 1 --timeout 1 > /dev/null 2> err; code=$?; \
         [ $code = 0 ] || sed \"s/^/$name: /\" err >&2; echo $name $code; done"
    )
}

pub fn cases() -> Vec<Case> {
    let case = |class: &&str| {
        let script = script(class);
        Case::new(&format!("stress-{class}"), &script).program("stress-ng").seconds_max(3600).for_nobody()
    };
    CLASSES.iter().map(case).collect()
}
