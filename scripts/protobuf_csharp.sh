#!/usr/bin/env bash
# Unpacks protobuf's C# library into build/protobuf-csharp. Debian has it within a package of sources alone, which apt
# finds by lists that most machines lack: these are fetched beside, and the machine's own stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

folder="$(mktemp -d)"
mkdir -p "$folder/lists/partial"
trap 'rm -rf "$folder"' EXIT
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sort -u >"$folder/sources.list"
options=(-q -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$folder/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
apt-get "${options[@]}" update
(cd "$folder" && apt-get "${options[@]}" source --download-only protobuf)

rm -rf build/protobuf-csharp
mkdir -p build/protobuf-csharp
tar xzf "$folder"/protobuf_*.orig.tar.gz -C build/protobuf-csharp --strip-components 4 --wildcards '*/csharp/src/Google.Protobuf/*'
