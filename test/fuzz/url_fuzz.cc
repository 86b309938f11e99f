// parse_url accepts any text as a URL or throws std::invalid_argument. The text of an accepted URL is a URL of the same
// address. No text or error shows the password.
#include "redis/url.h"
#include "require.h"

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using delayqueue::redis::parse_url;
using delayqueue::redis::Url;

namespace {

constexpr std::string_view kSecret = "Zq7s3cretX";  // part of no scheme, host or error text

bool shows_secret(const std::string& text) { return text.find(kSecret) != std::string::npos; }

std::vector<std::string> addresses_of(const Url& url) {
  std::vector<std::string> texts;
  for (const auto& address : url.addresses) texts.push_back(address.text());
  return texts;
}

void check_round_trip(const Url& url) {
  const std::string text = url.text();
  const Url again = parse_url(text);  // a finding if it throws
  REQUIRE(again.kind == url.kind);
  REQUIRE(again.folder == url.folder);
  REQUIRE(again.db == url.db);
  REQUIRE(addresses_of(again) == addresses_of(url));
  REQUIRE(again.text() == text);
}

std::optional<Url> parsed(const std::string& given) {
  try {
    return parse_url(given);
  } catch (const std::invalid_argument& e) {
    REQUIRE(std::strncmp(e.what(), "url: ", 5) == 0);
    return std::nullopt;
  }
}

void check(const std::string& given) {
  const auto url = parsed(given);
  if (!url) return;
  for (const unsigned char c : url->text()) REQUIRE(c > ' ' && c != 0x7f);
  REQUIRE(url->password.empty() || url->text().find("***") != std::string::npos);
  check_round_trip(*url);
}

// The same with a password in its place: between the first ':' behind the scheme and the next '@'.
void check_secret(std::string url, std::size_t colon) {
  if (shows_secret(url)) return;
  url.replace(colon + 1, url.find('@', colon) - colon - 1, kSecret);
  try {
    const Url given = parse_url(url);
    REQUIRE(given.password.find(kSecret) == std::string::npos || !shows_secret(given.text()));
  } catch (const std::invalid_argument& e) {
    REQUIRE(!shows_secret(e.what()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string given(reinterpret_cast<const char*>(data), size);
  check(given);
  const auto scheme = given.find("://");
  if (scheme == std::string::npos) return 0;
  const auto colon = given.find(':', scheme + 3);
  if (colon != std::string::npos && given.find('@', colon) != std::string::npos) check_secret(given, colon);
  return 0;
}
