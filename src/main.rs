//! The command `raygate`.

fn main() {}
