//! numpy is told where the memory of new arrays comes from (NEP 49).
//!
//! numpy 1.22 and newer have a handler of array memory, which is a value of the current context (`contextvars`). An
//! array keeps the handler that made it, and is resized and given back by that one. The functions are found as C code
//! finds them: by their place in a table that a capsule leads to. The places never change; they are in the header
//! `__multiarray_api.h` of each numpy.
//!
//! What must hold: the handler lives as long as the process, and so does the code of its functions, since Python never
//! unloads a native module.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr::null_mut;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::blocks;

/// Functions of the table, by their place.
const GET_FEATURE_VERSION: usize = 211;
const SET_HANDLER: usize = 304;

/// `PyArray_GetNDArrayCFeatureVersion` of numpy 1.22, the first that has handlers.
const FEATURE_VERSION_MIN: c_uint = 0xf;

/// The name of a capsule that leads to a handler.
const CAPSULE: &CStr = c"mem_handler";

/// Where the capsule of the table is: in numpy 2, and in older ones.
const MODULES: [&str; 2] = ["numpy._core._multiarray_umath", "numpy.core._multiarray_umath"];

/// `PyDataMem_Handler` of version 1, as numpy declares it. The context of its allocator is a number here, and unused.
#[repr(C)]
struct Handler {
    name: [u8; 127],
    version: u8,
    context: usize,
    malloc: extern "C" fn(usize, usize) -> *mut c_void,
    calloc: extern "C" fn(usize, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(usize, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(usize, *mut c_void, usize),
}

const _: () = assert!(size_of::<Handler>() == 128 + 5 * size_of::<usize>());

static HANDLER: Handler = Handler {
    name: name(b"uswap"),
    version: 1,
    context: 0,
    malloc: blocks::allocate,
    calloc: blocks::allocate_zeros,
    realloc: blocks::resize,
    free: blocks::give_back,
};

const fn name(text: &[u8]) -> [u8; 127] {
    let mut name = [0; 127];
    let (start, _) = name.split_at_mut(text.len());
    start.copy_from_slice(text);
    name
}

type GetFeatureVersion = unsafe extern "C" fn() -> c_uint;
type SetHandler = unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject;

/// In this context new arrays have managed memory, from now on. The handler that it had before.
///
/// # Errors
/// `ImportError`: there is no numpy, or an old one.
pub fn use_managed(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY:
    // 1. The handler and the name are static, and nobody writes to them: numpy reads a handler.
    // 2. It answers a new reference, or null and an exception.
    #[allow(unsafe_code)]
    let capsule = unsafe {
        let capsule = ffi::PyCapsule_New((&raw const HANDLER).cast_mut().cast(), CAPSULE.as_ptr(), None);
        Bound::from_owned_ptr_or_err(py, capsule)?
    };
    exchange(&capsule)
}

/// In this context new arrays have the memory of another handler, from now on. The handler that it had before.
///
/// # Errors
/// `ImportError`: there is no numpy, or an old one. `ValueError`: it is no handler.
pub fn exchange<'py>(handler: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = handler.py();
    let set_handler = set_handler(py)?;
    // SAFETY:
    // 1. We have the interpreter lock. numpy looks whether it is a capsule of a handler.
    // 2. It answers a new reference, or null and an exception.
    #[allow(unsafe_code)]
    unsafe {
        Bound::from_owned_ptr_or_err(py, set_handler(handler.as_ptr()))
    }
}

/// The function that sets the handler.
fn set_handler(py: Python<'_>) -> PyResult<SetHandler> {
    let table = table(py)?;
    // SAFETY:
    // 1. Every numpy of the last ten years has a function at the first place, of this type.
    // 2. One that has handlers has the other at the second place: its version is looked at.
    #[allow(unsafe_code)]
    unsafe {
        let get_version =
            std::mem::transmute::<*mut c_void, GetFeatureVersion>(*table.add(GET_FEATURE_VERSION));
        if get_version() < FEATURE_VERSION_MIN {
            return Err(PyImportError::new_err(
                "arrays in managed memory need numpy 1.22 or newer: install one",
            ));
        }
        Ok(std::mem::transmute::<*mut c_void, SetHandler>(*table.add(SET_HANDLER)))
    }
}

/// The table of numpy's functions for C.
fn table(py: Python<'_>) -> PyResult<*const *mut c_void> {
    py.import("numpy").map_err(|error| {
        let told =
            PyImportError::new_err(format!("arrays in managed memory need numpy ({error}): install it"));
        told.set_cause(py, Some(error));
        told
    })?;
    let mut capsules = MODULES.iter().map(|module| py.import(*module)?.getattr("_ARRAY_API"));
    let capsule = capsules.find_map(Result::ok).ok_or_else(|| {
        PyImportError::new_err("this numpy has no table of functions for C: is it one of the usual builds?")
    })?;
    let no_name: *const c_char = null_mut();
    // SAFETY:
    // 1. We have the interpreter lock. It looks whether it is a capsule without a name, as that of the table is.
    #[allow(unsafe_code)]
    let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), no_name) };
    if table.is_null() {
        return Err(PyErr::fetch(py));
    }
    Ok(table.cast_const().cast())
}
