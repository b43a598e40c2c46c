# Sourced by scripts/test: install a browser for the tests of pages where it is missing and possible (root, apt-get).
# Without one these tests are skipped.
if ! command -v chromium > /dev/null && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  echo "Installing chromium for the tests of pages ..."
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium; } \
    > /dev/null 2>&1 || echo "chromium could not be installed; the tests of pages are skipped."
fi
