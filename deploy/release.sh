#!/bin/sh
# deploy/release.sh VERSION [FOLDER]: builds a release into FOLDER (default: dist).
# Archives for Linux, macOS and Windows on amd64 and arm64, the chart, checksums, and
# for each program a list of what it is made of (CycloneDX). The same commit, version
# and Go give the same bytes: times are those of the commit, and no path of this
# machine gets in. RELEASE_PLATFORMS="linux/amd64 …" builds fewer.
set -eu

version=${1:-}
case $version in
  [0-9]*.[0-9]*.[0-9]*) ;;
  *) echo "usage: deploy/release.sh VERSION [FOLDER], such as 1.2.3" >&2; exit 2 ;;
esac
out=${2:-dist}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."

commit=$(git rev-parse HEAD)
stamp=$(git log -1 --format=%ct)
if [ -n "$(git status --porcelain)" ]; then
  if [ "${RELEASE_DIRTY:-}" != yes ]; then
    echo "there are changes that are not committed; a release is made of a commit (RELEASE_DIRTY=yes builds all the same)" >&2
    exit 1
  fi
  commit="$commit-dirty"
fi
date=$(date -u -d "@$stamp" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$stamp" +%Y-%m-%dT%H:%M:%SZ)
platforms=${RELEASE_PLATFORMS:-"linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64"}
flags="-s -w -X main.release=$version -X main.commit=$commit -X main.date=$date"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
rm -f "$out"/toolbridge-* "$out"/SHA256SUMS

go build -o "$work/pack" ./deploy/release
for platform in $platforms; do
  os=${platform%/*} arch=${platform#*/}
  name=toolbridge-$version-$os-$arch
  program=toolbridge
  [ "$os" = windows ] && program=toolbridge.exe
  mkdir -p "$work/$name/deploy"
  CGO_ENABLED=0 GOOS=$os GOARCH=$arch GOFLAGS= go build -trimpath -buildvcs=false -ldflags "$flags" -o "$work/$name/$program" ./cmd/toolbridge
  cp LICENSE README.md CHANGELOG.md "$work/$name/"
  cp deploy/toolbridge.yaml "$work/$name/deploy/"
  cp -R deploy/nats deploy/systemd deploy/prometheus deploy/grafana "$work/$name/deploy/"
  cp deploy/collector.yaml "$work/$name/deploy/"
  format=tar.gz
  [ "$os" = windows ] && format=zip
  "$work/pack" archive -time "$stamp" -out "$out/$name.$format" "$work/$name"
  "$work/pack" sbom -time "$stamp" -version "$version" -licenses docs/dependencies.md -out "$out/$name.cdx.json" "$work/$name/$program"
  echo "$name.$format"
done

# The chart with this version, as helm package would name it.
mkdir "$work/chart"
cp -R deploy/chart/toolbridge "$work/chart/toolbridge"
rm -rf "$work/chart/toolbridge/ci"
sed -e "s/^version: .*/version: $version/" -e "s/^appVersion: .*/appVersion: $version/" deploy/chart/toolbridge/Chart.yaml >"$work/chart/toolbridge/Chart.yaml"
"$work/pack" archive -time "$stamp" -out "$out/toolbridge-$version.tgz" "$work/chart/toolbridge"

"$work/pack" sums -out "$out/SHA256SUMS" "$out"
echo "$out/SHA256SUMS"
