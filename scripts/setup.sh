#!/bin/sh
# Makes .venv with the locked packages; says which of Python and Java is missing, and how to get it.
set -eu

fail() {
    echo "penstock: $1" >&2
    exit 1
}

python=""
for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is missing. Install it (Debian: apt install python3 python3-venv) or name it: make setup PYTHON=/path/to/python3"

java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || version=""
[ -n "$version" ] || fail "Java 17 or newer is missing. Install it (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME."
[ "$version" -ge 17 ] || fail "Java $version is too old: Spark and Kafka need 17 or newer. Install it (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME."

if [ ! -x .venv/bin/pip ]; then
    echo "penstock: making .venv with $("$python" --version)"
    "$python" -m venv .venv || fail "Python has no working venv module. Install it (Debian: apt install python3-venv)."
fi
echo "penstock: installing the locked packages into .venv (PySpark alone is 450 MB: a few minutes on a first run)"
.venv/bin/pip install --disable-pip-version-check --progress-bar on --require-hashes --no-deps -r requirements.lock
.venv/bin/pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
touch .venv/.ready
