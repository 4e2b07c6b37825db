#!/bin/sh
# Generates the Go code of the API from api/txmgr/v1/*.proto. The result is
# committed; `generate.sh --check` fails when it is not what the sources give.
# Needs protoc: Debian's protobuf-compiler (3.21).
set -eu

cd "$(dirname "$0")"
command -v protoc >/dev/null || {
	echo "generate.sh: protoc not found: apt-get install protobuf-compiler" >&2
	exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/out"
GOBIN="$work/bin" go install -modfile=../tools/go.mod \
	google.golang.org/protobuf/cmd/protoc-gen-go \
	connectrpc.com/connect/cmd/protoc-gen-connect-go

PATH="$work/bin:$PATH" protoc --proto_path=. \
	--go_out="$work/out" --go_opt=paths=source_relative \
	--connect-go_out="$work/out" --connect-go_opt=paths=source_relative,simple \
	txmgr/v1/*.proto

# As all other code: the check of a change looks at every file that it touches.
find "$work/out" -name '*.go' -exec go tool -modfile=../tools/go.mod gofumpt -w {} +

if [ "${1:-}" = --check ]; then
	for f in $(cd "$work/out" && find . -name '*.go'); do
		cmp "$work/out/$f" "$f" || {
			echo "generate.sh: $f is not up to date: run api/generate.sh" >&2
			exit 1
		}
	done
	exit 0
fi
cp -R "$work/out/." .
