#include "preamble.h"

#include "support/acl.h"
#include "support/sentinels.h"

namespace {

using test::Guarded;

TEST_CASE("scripts: list reports missing scripts with exit code 5, and a user with no other rights may load them") {
  Guarded guarded(false);
  const auto loader = at(guarded.url("loader"));
  expect(run({"scripts", "list"}, loader), 5, {out_has("missing: all")});
  expect(run({"scripts", "load"}, loader), 0, {out_has("unix:" + guarded.server.socket()), out_has("SERVER")});
  CHECK(run({"scripts", "list"}, loader).code == 0);
  CHECK(run({"send", "orders", "x"}, at(guarded.url("producer"))).code == 0);
}

TEST_CASE("scripts: JSON has the address of each server, the loaded and missing scripts, and the error") {
  Guarded guarded(false);
  const auto loader = at(guarded.url("loader"));
  const json before = parse_json(run({"scripts", "list", "-o", "json"}, loader).out).at("servers");
  REQUIRE(before.size() == 1);
  CHECK(before[0].at("server") == "unix:" + guarded.server.socket());
  CHECK(before[0].at("loaded").empty());
  CHECK(before[0].at("missing").size() > 20);
  CHECK(before[0].at("error").is_null());
  const Ran refused = expect(run({"scripts", "load", "-o", "ndjson"}, at(guarded.url("producer"))), 1);
  CHECK(has(lines_of(refused.out).at(0).at("error"), "NOPERM"));
}

TEST_CASE("scripts: with Sentinels there is a row for each server; exit code 4 if one is unreachable") {
  test::Sentinels world;
  CHECK(lines_of(run({"scripts", "load", "-o", "ndjson"}, at(world.url())).out).size() == 3);
  world.node(1).kill();
  expect(run({"scripts", "load"}, at(world.url())), 4, {out_has(world.node(1).address())});
}

TEST_CASE("scripts: an action other than load and list is exit code 2") {
  expect(run({"scripts", "flush"}), 2, {err_has("ACTION: neither load nor list")});
}

}  // namespace
