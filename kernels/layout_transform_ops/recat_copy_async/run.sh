#!/usr/bin/env bash
# Builds the operator package of RecatCopyAsync with CANN's msopgen and installs it.
#
#   ./run.sh --soc Ascend910B1 --cann /usr/local/Ascend/ascend-toolkit/latest [--output DIR]
#
# --soc     the chip as npu-smi names it (Ascend910B1), its compute unit (ascend910b, ascend910_93,
#           ascend950) or its family: a2, a3, a5. A5 needs CANN 9 or newer
# --cann    CANN's folder; default: ASCEND_HOME_PATH
# --output  where DIR/vendors/torchrec_ascend is installed; default: ./build
#
# A package is for one compute unit. Set ASCEND_CUSTOM_OPP_PATH=DIR/vendors/torchrec_ascend where it
# is used.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
vendor=torchrec_ascend
soc=
cann=${ASCEND_HOME_PATH:-}
output=$here/build

fail() {
  printf 'run.sh: %s\n' "$@" >&2
  exit 1
}

while (($#)); do
  case $1 in
    --soc | --cann | --output)
      (($# > 1)) || fail "$1 needs a value"
      case $1 in --soc) soc=$2 ;; --cann) cann=$2 ;; --output) output=$2 ;; esac
      shift 2
      ;;
    -h | --help)
      sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) fail "unknown argument $1, expected --soc, --cann or --output" ;;
  esac
done

[[ -n $soc ]] || fail "--soc is missing, for example Ascend910B1; npu-smi info shows the chip"
case ${soc,,} in
  a2 | ascend910b*) unit=ascend910b ;;
  a3 | ascend910_93*) unit=ascend910_93 ;;
  a5 | ascend950*) unit=ascend950 ;;
  *) fail "--soc is $soc, expected Ascend910B*, Ascend910_93*, Ascend950*, a2, a3 or a5" ;;
esac

[[ -n $cann ]] || fail "--cann is missing, and ASCEND_HOME_PATH is not set"
[[ -d $cann ]] || fail "--cann is $cann, which is no folder"
cann=$(cd "$cann" && pwd)
missing=()
[[ -f $cann/set_env.sh || -f $cann/bin/setenv.bash ]] || missing+=("set_env.sh: $cann is not CANN's folder")
compiler=
for candidate in "$cann"/compiler/ccec_compiler/bin/ccec "$cann"/*/ccec_compiler/bin/ccec \
  "$cann"/*/bisheng_compiler/bin/bisheng "$cann"/bin/bisheng; do
  [[ -x $candidate ]] && compiler=$candidate && break
done
[[ -n $compiler ]] || missing+=("the kernel compiler (ccec or bisheng): install the toolkit, not only the runtime")
msopgen=
for candidate in "$cann"/python/site-packages/bin/msopgen "$cann"/tools/msopgen/bin/msopgen \
  "$cann"/bin/msopgen "$(command -v msopgen || true)"; do
  [[ -n $candidate && -x $candidate ]] && msopgen=$candidate && break
done
[[ -n $msopgen ]] || missing+=("msopgen: part of the toolkit; also looked for on PATH")
for tool in cmake make python3; do
  command -v "$tool" >/dev/null || missing+=("$tool on PATH")
done
if ((${#missing[@]})); then
  fail "missing in $cann or on this machine:" "${missing[@]/#/  }"
fi

if [[ $unit == ascend950 ]]; then
  # The toolkit's own version; the folders' are those of its parts.
  version=$(cat "$cann"/ascend_toolkit_install.info "$cann"/*/ascend_toolkit_install.info \
    "$cann"/version.cfg "$cann"/*/version.info 2>/dev/null | sed -n 's/^[Vv]ersion=//p') || true
  version=${version%%$'\n'*}
  [[ -n $version ]] || fail "cannot tell CANN's version from $cann; ascend950 needs 9 or newer"
  [[ ${version%%.*} =~ ^[0-9]+$ && ${version%%.*} -ge 9 ]] ||
    fail "CANN is $version, but ascend950 needs 9 or newer"
fi

# CANN's scripts read variables that may be unset, and end with whatever their last command says.
environment=$cann/set_env.sh
[[ -f $environment ]] || environment=$cann/bin/setenv.bash
set +eu
# shellcheck disable=SC1090
source "$environment"
set -eu

mkdir -p "$output"
output=$(cd "$output" && pwd)
project=$(mktemp -d "$output/project.XXXXXX")
trap 'rm -rf "$project"' EXIT
"$msopgen" gen -i "$here/recat_copy_async.json" -f tf -c "ai_core-$unit" -lan cpp \
  -out "$project/recat" -m 0 -op RecatCopyAsync
project_files=$project/recat
[[ -f $project_files/build.sh ]] || fail "msopgen made no build.sh in $project_files"
cp "$here"/op_host/*.h "$here"/op_host/*.cpp "$project_files/op_host/"
cp "$here"/op_kernel/*.h "$here"/op_kernel/*.cpp "$project_files/op_kernel/"
if [[ $unit == ascend950 ]]; then
  sed -i '1i #define RECAT_ASCEND950' "$project_files/op_host/recat_copy_async.cpp"
fi
python3 - "$project_files/CMakePresets.json" "$cann" "$unit" "$vendor" <<'PYTHON'
import json
import sys

path, cann, unit, vendor = sys.argv[1:]
with open(path) as file:
    presets = json.load(file)
variables = presets["configurePresets"][0]["cacheVariables"]
for name, value in (
    ("ASCEND_CANN_PACKAGE_PATH", cann),
    ("ASCEND_COMPUTE_UNIT", unit),
    ("vendor_name", vendor),
):
    present = variables.get(name)
    variables[name] = dict(present, value=value) if isinstance(present, dict) else value
with open(path, "w") as file:
    json.dump(presets, file, indent=2)
PYTHON

(cd "$project_files" && bash build.sh)
installer=$(find "$project_files/build_out" -maxdepth 1 -name 'custom_opp_*.run' | head -n 1)
[[ -n $installer ]] || fail "build.sh made no custom_opp_*.run"
# Over an older package of ours some installers ask what to do, and this has no one to answer.
rm -rf "${output:?}/vendors/$vendor"
bash "$installer" --install-path="$output"

library=$output/vendors/$vendor/op_api/lib/libcust_opapi.so
[[ -f $library ]] || fail "the installer made no $library"
for symbol in aclnnRecatCopyAsyncGetWorkspaceSize aclnnRecatCopyAsync; do
  grep -aqE "$symbol([^A-Za-z]|\$)" "$library" || fail "$library has no $symbol"
done
echo "installed for $unit; use it with"
echo "  export ASCEND_CUSTOM_OPP_PATH=$output/vendors/$vendor"
