// The parsers of dqctl serve accept any bytes: they return, or throw HttpError or Usage. What they accept is within the
// limits, and the values of fields are visible ASCII.
#include "require.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "exit.h"
#include "output/text.h"
#include "serve/change_request.h"
#include "serve/listener.h"
#include "serve/request.h"

using dqctl::Action;

namespace {

template <class Parse>
void accepts_any(const Parse& parse) {
  try {
    parse();
  } catch (const dqctl::HttpError& error) {
    REQUIRE(error.status() >= 400 && error.status() < 500);
    REQUIRE(*error.what() != '\0');
  } catch (const dqctl::Usage& error) {
    REQUIRE(*error.what() != '\0');
  }
}

void check_head(const std::string& given) {
  const dqctl::CheckedHead head = dqctl::check_head(given);
  REQUIRE(head.body <= dqctl::kMostBody);
  const dqctl::HttpRequest& request = head.request;
  REQUIRE(request.method == "GET" || request.method == "HEAD" || request.method == "POST");
  REQUIRE(head.body == 0 || request.method == "POST");
  REQUIRE(request.body.empty() && request.client.empty());
  for (const std::string* value : {&request.host, &request.origin, &request.fetch_site, &request.content_type,
                                   &request.action, &request.authorization}) {
    REQUIRE(given.find(*value) != std::string::npos);  // as it was sent
    for (const char c : *value) REQUIRE((c >= ' ' && c < 0x7F) || c == '\t');
  }
}

void check_target(const std::string& given) {
  const dqctl::Target target = dqctl::parse_target(given);
  const dqctl::Query query(target, {"state", "limit"});
  if (const auto state = query.text("state", 10)) REQUIRE(state->size() <= 10);
  REQUIRE(query.number("limit", 1, 200, 20) <= 200);
}

void check_change(Action action, const std::string& given) {
  const dqctl::ChangeRequest change = dqctl::parse_change(action, given);
  REQUIRE(change.state != delayqueue::State::unack);
  REQUIRE(change.retries >= 0);
  REQUIRE(action != Action::reschedule || change.when);
  REQUIRE((action != Action::purge && action != Action::redrive) || change.dry_run || change.at_most > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string given(reinterpret_cast<const char*>(data), size);
  accepts_any([&] { check_head(given); });
  accepts_any([&] { check_target(given); });
  accepts_any([&] { REQUIRE(!dqctl::parse_host(given).empty()); });
  accepts_any([&] { dqctl::parse_listen(given); });
  for (const Action action : {Action::pause, Action::resume, Action::redrive, Action::purge, Action::release,
                              Action::cancel, Action::reschedule, Action::redrive_one}) {
    accepts_any([&] { check_change(action, given); });
  }
  return 0;
}
