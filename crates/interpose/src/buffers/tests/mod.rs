//! Tests of the boundary: the slot against a model, the flow of a call, calls in parts, signals.

mod flow;
mod interrupted;
mod parts;
mod slot;
