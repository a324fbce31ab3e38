//! Gives the shared library its name for the dynamic linker. The number grows when programs that were linked with an
//! older library cannot use the newer one.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libusw.so.0");
}
