//! fio in the ways of the kernel to read and write files, with its content checked.

use crate::interpose_check::case::Case;

/// An engine with its options.
const ENGINES: [(&str, &str); 8] = [
    ("io_uring", "--ioengine=io_uring --fixedbufs --registerfiles --iodepth=16 --direct=1"),
    ("io_uring-buffered", "--ioengine=io_uring --iodepth=8"),
    ("libaio", "--ioengine=libaio --iodepth=16 --direct=1"),
    ("psync-direct", "--ioengine=psync --direct=1"),
    ("pvsync2", "--ioengine=pvsync2"),
    ("posixaio", "--ioengine=posixaio --iodepth=8"),
    ("mmap", "--ioengine=mmap"),
    ("splice", "--ioengine=splice"),
];

pub fn cases() -> Vec<Case> {
    let case = |(name, options): &(&str, &str)| {
        let script = format!(
            "fio --name=x {options} --rw=randwrite --bs=16k --size=24M --mem=mmap --iomem_align=4096 --verify=crc32c \
             --verify_fatal=1 --thread --numjobs=2 --randseed=7 > out; echo $?; grep -c 'err= 0' out"
        );
        Case::new(&format!("fio-{name}"), &script).program("fio")
    };
    ENGINES.iter().map(case).collect()
}
