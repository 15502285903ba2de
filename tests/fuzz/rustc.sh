#!/bin/sh
# Runs rustc for cargo, and instruments our own packages with the flags in SANITIZER_FLAGS (tests/run.py).
# Dependencies are compiled as in other builds: quicker, and coverage is that of our own code.
case "$CARGO_PKG_NAME" in
kafkalog | kafkalog-fuzz)
    # The flags are unstable, but work in stable toolchains that ship the runtime.
    # shellcheck disable=SC2086
    RUSTC_BOOTSTRAP=1 exec "$@" $SANITIZER_FLAGS
    ;;
*) exec "$@" ;;
esac
