//! CPython's own tests, of Debian's package libpython3.11-testsuite.

use crate::interpose_check::case::Case;

const MODULES: [&str; 10] = [
    "test_os",
    "test_io",
    "test_subprocess",
    "test_signal",
    "test_socket",
    "test_mmap",
    "test_threading",
    "test_multiprocessing_fork",
    "test_ctypes",
    "test_faulthandler",
];

/// Runs one module and prints how each of its tests ended, in the order of their names. The test of VSOCK is left out:
/// for root it waits for ever where the hypervisor does not connect a machine to itself.
const DRIVER: &str = "\
import os, sys, unittest

class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.ends = {}

    def note(self, test, end):
        self.ends.setdefault(test.id(), set()).add(end)

    def startTest(self, test):
        super().startTest(test)
        print(test.id(), file=sys.stderr, flush=True)

    def stopTest(self, test):
        super().stopTest(test)
        self.ends.setdefault(test.id(), {'ok'})

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, 'error')
        print(self.errors[-1][1], file=sys.stderr)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, 'failure')
        print(self.failures[-1][1], file=sys.stderr)

    def addSkip(self, test, why):
        super().addSkip(test, why)
        self.note(test, 'skipped')

    def addSubTest(self, test, part, error):
        super().addSubTest(test, part, error)
        if error is not None:
            self.note(test, 'failure')
            print(error[1], file=sys.stderr)

def kept(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from kept(test)
        elif 'ThreadedVSOCKSocketStreamTest' not in test.id():
            yield test

if __name__ == '__main__':
    import faulthandler, importlib
    from test import support
    faulthandler.enable()
    support.use_resources = ['network', 'subprocess']
    told = os.dup(1)
    os.dup2(2, 1)
    module = sys.argv[1]
    if module == 'test_ctypes':
        suite = unittest.defaultTestLoader.discover(os.environ['CTYPES_TESTS'], 'test*.py', '/usr/lib/python3.11')
    else:
        suite = unittest.defaultTestLoader.loadTestsFromName('test.' + module)
    result = Result()
    unittest.TestSuite(kept(suite)).run(result)
    for name, ends in sorted(result.ends.items()):
        os.write(told, f'{name} {sorted(ends)}\\n'.encode())
    os.write(told, f'{result.testsRun} tests\\n'.encode())
";

pub fn cases() -> Vec<Case> {
    MODULES.into_iter().map(case).collect()
}

fn case(module: &str) -> Case {
    let tests = "/usr/lib/python3.11/test/test_os.py";
    let prepare = format!("cat > run_tests.py << 'END'\n{DRIVER}END\n");
    let script = format!(
        "export CTYPES_TESTS=/usr/lib/python3.11/ctypes/test; /usr/bin/python3.11 -B $PREPARED/run_tests.py {module}"
    );
    Case::new(&format!("python-{module}"), &script)
        .program("/usr/bin/python3.11")
        .file(tests)
        .prepare(&prepare)
        .seconds_max(600)
}
