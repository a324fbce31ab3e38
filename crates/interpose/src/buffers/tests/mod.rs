//! Tests of the boundary: the slot against a model, the flow of a call, calls in parts.

mod flow;
mod parts;
mod slot;
