//! Makes the messages of the protos.

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=../../protos");
    let protos = ["generation", "errors"].map(|name| format!("../../protos/outrider/v1/{name}.proto"));
    prost_build::compile_protos(&protos, &["../../protos"])
}
