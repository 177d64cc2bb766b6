#!/bin/sh
# Installs whetstone for one user, from a release:
#
#	curl -fsSL https://github.com/whetstone-dev/whetstone/releases/latest/download/install.sh | sh
#	sh install.sh --dir ~/bin --base-url https://mirror.example/whetstone/v1.2.3
#
# It needs no root: it installs into --dir, by default /usr/local/bin if that is
# writable and ~/.local/bin if not. Nothing is installed before its SHA-256 is that of
# checksums.txt. The signature of checksums.txt is verified, too, with cosign or
# openssl, by the key of the release (or --key FILE); if neither is there, the
# installer says so and goes on, unless --require-signature is given.
set -eu

base=https://github.com/whetstone-dev/whetstone/releases/latest/download
dir=
# scripts/release puts the public key of the release here.
key=
key_file=
required=

say() { printf 'whetstone: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

usage() {
	cat <<-'EOF'
		usage: install.sh [--dir DIR] [--base-url URL] [--key FILE] [--require-signature]

		  --dir DIR             where the program goes; default /usr/local/bin or ~/.local/bin
		  --base-url URL        the folder of a release
		  --key FILE            the public key that must have signed the release
		  --require-signature   fail if the signature cannot be verified
	EOF
}

have() { command -v "$1" >/dev/null 2>&1; }

# fetch URL FILE
fetch() {
	if have curl; then
		curl -fsSL --retry 2 -o "$2" "$1"
	elif have wget; then
		wget -q -O "$2" "$1"
	else
		die "neither curl nor wget is installed"
	fi || die "cannot download $1"
}

sha256() {
	if have sha256sum; then
		sha256sum "$1"
	elif have shasum; then
		shasum -a 256 "$1"
	else
		die "neither sha256sum nor shasum is installed: the download cannot be verified"
	fi | cut -d ' ' -f 1
}

platform() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) die "there is no installer for $(uname -s); the release has archives for Linux, macOS and Windows" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) die "there is no build for $(uname -m); \`make build\` makes one from source" ;;
	esac
	# A shell under Rosetta says x86_64.
	if [ "$os/$arch" = darwin/amd64 ] && [ "$(sysctl -n hw.optional.arm64 2>/dev/null || true)" = 1 ]; then
		arch=arm64
	fi
	echo "${os}_$arch"
}

# verify_signature checks checksums.txt, if there is a key.
verify_signature() {
	if [ -n "$key_file" ]; then
		cp "$key_file" "$work/key.pem" || die "cannot read the key $key_file"
	elif [ -n "$key" ]; then
		printf '%s\n' "$key" >"$work/key.pem"
	else
		unverified "this installer has no key; --key names one"
		return
	fi
	if ! have cosign && ! have openssl; then
		unverified "neither cosign nor openssl is installed"
		return
	fi
	fetch "$base/checksums.txt.sig" "$work/checksums.txt.sig"
	if have cosign; then
		cosign verify-blob --key "$work/key.pem" --signature "$work/checksums.txt.sig" --private-infrastructure \
			"$work/checksums.txt" >"$work/log" 2>&1 || bad_signature
	else
		openssl base64 -d -A -in "$work/checksums.txt.sig" -out "$work/signature" 2>"$work/log" || bad_signature
		openssl dgst -sha256 -verify "$work/key.pem" -signature "$work/signature" "$work/checksums.txt" >"$work/log" 2>&1 || bad_signature
	fi
	say "the signature is valid"
}

bad_signature() {
	cat "$work/log" >&2
	die "the signature of checksums.txt is not valid: nothing was installed"
}

unverified() {
	[ -z "$required" ] || die "the signature cannot be verified: $*"
	say "the signature is not verified: $*"
}

target_dir() {
	if [ -n "$dir" ]; then
		echo "$dir"
	elif [ -d /usr/local/bin ] && [ -w /usr/local/bin ]; then
		echo /usr/local/bin
	else
		echo "${HOME:?}/.local/bin"
	fi
}

main() {
	while [ $# -gt 0 ]; do
		case $1 in
		--dir | --base-url | --key)
			[ $# -ge 2 ] || die "$1 needs a value"
			case $1 in
			--dir) dir=$2 ;;
			--base-url) base=${2%/} ;;
			--key) key_file=$2 ;;
			esac
			shift
			;;
		--require-signature) required=yes ;;
		-h | --help)
			usage
			exit
			;;
		*)
			usage >&2
			exit 2
			;;
		esac
		shift
	done

	platform=$(platform)
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM

	fetch "$base/checksums.txt" "$work/checksums.txt"
	verify_signature
	# A line is a sum, two spaces and the name of a file of the release.
	line=$(grep -E "^[0-9a-f]{64}  whetstone_[0-9A-Za-z.-]+_$platform\.tar\.gz\$" "$work/checksums.txt" || true)
	case $line in
	'') die "the release has no archive for $platform" ;;
	*'
'*) die "checksums.txt names several archives for $platform" ;;
	esac
	want=${line%% *}
	archive=${line##* }

	say "downloading $archive"
	fetch "$base/$archive" "$work/$archive"
	got=$(sha256 "$work/$archive")
	[ "$got" = "$want" ] || die "$archive has the SHA-256 $got, and checksums.txt says $want: nothing was installed"

	name=${archive%.tar.gz}
	tar -xzf "$work/$archive" -C "$work" "$name/whetstone"
	"$work/$name/whetstone" version >/dev/null || die "the program does not start on this machine: nothing was installed"

	target=$(target_dir)
	mkdir -p "$target"
	# The rename replaces a running program, which a copy could not.
	cp "$work/$name/whetstone" "$target/.whetstone.$$"
	chmod 755 "$target/.whetstone.$$"
	mv -f "$target/.whetstone.$$" "$target/whetstone"

	say "installed $("$target/whetstone" version) as $target/whetstone"
	case :$PATH: in
	*:"$target":*) ;;
	*) say "$target is not in PATH: export PATH=\"$target:\$PATH\"" ;;
	esac
}

# The last line, so that a download that was cut off runs nothing.
main "$@"
