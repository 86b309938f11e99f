// For any bytes from a server, a caller gets a value or a delayqueue::Error, in bounded time and memory.
//
// An input is: one byte for the login and the size of the pieces in which bytes arrive, one byte for the number of
// moves, one byte for each move, and the bytes from the server. Seeds whose name begins with bad_ end in an error;
// seeds_test.cc checks that the others do not.
#include "redis/connection.h"
#include "require.h"
#include "store/integrity.h"
#include "store/layout.h"
#include "store/moves.h"
#include "store/pause.h"
#include "store/queries.h"
#include "support/fed_transport.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace delayqueue::store;
using namespace std::chrono_literals;
using delayqueue::redis::Address;
using delayqueue::redis::Clock;
using delayqueue::redis::Connection;
using delayqueue::redis::Login;
using delayqueue::redis::Reply;

const std::string kId = "00000000-0000-7000-8000-000000000000";
const std::string kHello = "*2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n";
const std::string kPassword = "Zq7s3cretX";

// Uses values as callers do, so that the sanitizers can check them.
void use(const std::string& text) { REQUIRE(text.size() < 1'000'000); }
void use(std::size_t) {}
void use(const std::vector<std::string>& texts) {
  for (const auto& text : texts) use(text);
}
void use(const std::vector<std::optional<std::string>>& texts) {
  for (const auto& text : texts) use(text.value_or(""));
}
void use_wait(const std::optional<microseconds>& wait) {
  REQUIRE(Clock::now() + wait.value_or(0us) >= Clock::now() - 1h);
}
void use_now(std::int64_t now_us) { REQUIRE(now_us + microseconds(1000h).count() > now_us); }
void use(const Promoted& promoted) {
  use_wait(promoted.next);
  use(promoted.ids);
}
void use(const Reclaimed& reclaimed) {
  use_wait(reclaimed.next);
  use(reclaimed.retried);
  use(reclaimed.dead_lettered);
}
void use(const Renewed& renewed) {
  use_now(renewed.now_us);
  use(renewed.outcomes);
}
void use(const Taken& taken) {
  use_now(taken.now_us);
  use(taken.possible_poison);
  for (const auto& [id, attempt] : taken.messages) {
    use(id);
    REQUIRE(attempt >= 0);
  }
  REQUIRE(taken.retries_left >= 0);
  use(taken.timed_id);
  const auto now = Clock::now();
  REQUIRE(taken.late >= 0us && now - taken.late <= now);
  for (const auto& [id, retries] : taken.other_retries_left) {
    use(id);
    REQUIRE(retries >= 0);
  }
}
void use(const PromotedAndTaken& both) {
  use(both.promoted);
  if (both.taken) use(*both.taken);
}
void use(const Scanned& scanned) {
  use(scanned.cursor);
  use(scanned.ids);
  use(scanned.damaged);
}
void use(const KeyedSent& sent) {
  use(sent.outcomes);
  use(sent.ids);
  REQUIRE(sent.ids.size() == sent.outcomes.size());
}
void use(const Purged& purged) { use(purged.garbage); }
void use(const PurgedIds& purged) { use(purged.outcomes); }
void use_time(const std::optional<std::int64_t>& us) {
  if (!us) return;
  from_us(*us);
  is_lease(*us);
}
void use(const QueueCounts& counts) {
  use_time(counts.now_us);
  use_time(counts.first_pending_us);
  use_time(counts.first_unack_us);
  use_time(counts.oldest_ready_us);
  for (const auto& [name, number] : counts.stats) use(name);
}
void use(const Entry& entry) {
  use(entry.id);
  use(entry.reason);
  use_time(entry.score_us);
  time_of_id(entry.id);
  canonical_id(entry.id);
  REQUIRE(entry.retries.value_or(0) >= 0 && entry.deliveries >= 0);
}
void use(const Page& page) {
  for (const Entry& entry : page.entries) use(entry);
}
void use(const Found& found) { use(found.entry); }
void use(const Layout& layout) {
  REQUIRE(is_partition_count(layout.partitions));
  REQUIRE(layout.top >= layout.partitions && layout.top <= kMostPartitions);
}
void use(const SenderSettings& settings) {
  use(settings.layout);
  REQUIRE(settings.length.value_or(1) > 0);
}
void use(const PauseState& pause) {
  use(pause.reason);
  REQUIRE(pause.generation >= -1 && pause.left.value_or(0ms) >= 0ms);
  REQUIRE(Clock::now() + pause.left.value_or(0ms) >= Clock::now() - 1h);
}
void use(const StoredLayout& stored) { use(stored.copy); }

const Moves kRequests(make_keys("q", {}));
const Keys& kKeys = kRequests.keys();
const std::vector<Receipt> kReceipts = {{kId, 1}, {kId, 2}};

using Read = std::function<void()>;

template <class T>
Read reader(Answer<T> answer) {
  return [answer] { use(answer.get()); };
}

// All requests, in the order of moves.h, queries.h and integrity.h. Add new ones at the end: the corpus contains
// indexes into this list.
const std::vector<Read (*)(Pipeline&)> kMoves = {
    [](Pipeline& p) {
      return reader(kRequests.send(p, {{kId, "x"}, {kId, ""}}, {}));
    },
    [](Pipeline& p) -> Read {
      kRequests.wake(p);
      return [] {};
    },
    [](Pipeline& p) {
      return reader(kRequests.pending2ready(p, true, {"me", std::chrono::seconds(1)}));
    },
    [](Pipeline& p) {
      return reader(kRequests.ready2unack(p, {200, 25, 200}, 1s));
    },
    [](Pipeline& p) {
      return reader(kRequests.bodies(p, {kId, kId}));
    },
    [](Pipeline& p) { return reader(kRequests.ack(p, kReceipts)); },
    [](Pipeline& p) { return reader(kRequests.expire(p, kReceipts)); },
    [](Pipeline& p) {
      return reader(kRequests.nack(p, {{kReceipts[0], 1s, "a"}, {kReceipts[1], {}, ""}}));
    },
    [](Pipeline& p) { return reader(kRequests.renew(p, kReceipts, 7)); },
    [](Pipeline& p) { return reader(kRequests.release(p, kReceipts, 0ms)); },
    [](Pipeline& p) { return reader(kRequests.release_waiting(p, {kId}, true)); },
    [](Pipeline& p) { return reader(kRequests.unack2retry(p)); },
    [](Pipeline& p) { return reader(kRequests.persist(p, {kId})); },
    [](Pipeline& p) { return reader(kRequests.sample_garbage(p)); },
    [](Pipeline& p) { return reader(kRequests.gc(p, {kId})); },
    [](Pipeline& p) { return reader(kRequests.sample_metadata(p, kKeys.attempts)); },
    [](Pipeline& p) { return reader(kRequests.delete_orphaned_metadata(p, {kId})); },
    [](Pipeline& p) { return reader(kRequests.cancel(p, kId)); },
    [](Pipeline& p) { return reader(kRequests.reschedule(p, kId, {})); },
    [](Pipeline& p) { return reader(kRequests.redrive(p, {kId}, 3)); },
    [](Pipeline& p) { return reader(kRequests.purge_zset(p, kKeys.dead, 200, 1s, 5)); },
    [](Pipeline& p) { return reader(kRequests.purge_list(p, kKeys.ready, 200)); },
    [](Pipeline& p) { return reader(counts(p, kKeys)); },
    [](Pipeline& p) { return reader(page_of_zset(p, kKeys, kKeys.pending, {}, 200)); },
    [](Pipeline& p) { return reader(page_of_list(p, kKeys, kKeys.ready, {}, 200)); },
    [](Pipeline& p) { return reader(find(p, kKeys, kId)); },
    [](Pipeline& p) { return reader(scan(p, kKeys, Collection::pending, "0")); },
    [](Pipeline& p) { return reader(scan(p, kKeys, Collection::garbage, "0")); },
    [](Pipeline& p) { return reader(scan(p, kKeys, Collection::bodies, "0")); },
    [](Pipeline& p) { return reader(delayqueue::store::size(p, kKeys, Collection::bodies)); },
    [](Pipeline& p) { return reader(type(p, kKeys.ready)); },
    [](Pipeline& p) { return reader(list_length(p, kKeys.ready)); },
    [](Pipeline& p) { return reader(list_page(p, kKeys.ready, 0, 200)); },
    [](Pipeline& p) {
      return reader(classify(p, kKeys, {kId, kId}));
    },
    [](Pipeline& p) {
      return reader(confirm(p, kKeys, {{kId, 'M'}}));
    },
    [](Pipeline& p) {
      return reader(repair(p, kKeys, {{kId, 'M'}}, 3));
    },
    [](Pipeline& p) {
      return reader(kRequests.bury(p, {kId, kId}, "why", true));
    },
    [](Pipeline& p) { return reader(kRequests.extend(p, {kId}, 1s, false)); },
    [](Pipeline& p) {
      return reader(kRequests.restore(p, {{kId, true, 7, 0, 1, 0ms, "why", "x"}}));
    },
    [](Pipeline& p) { return reader(kRequests.purge_ids(p, kKeys.ready, {kId})); },
    [](Pipeline& p) { return reader(kRequests.purge_hints(p, kKeys.ready)); },
    [](Pipeline& p) { return reader(kRequests.forget(p)); },
    [](Pipeline& p) { return reader(kRequests.lock(p, "who", 1s)); },
    [](Pipeline& p) { return reader(kRequests.unlock(p, "who")); },
    [](Pipeline& p) {
      kRequests.send(p, {{kId, "x"}}, {});
      return reader(Moves::is_first(p));
    },
    [](Pipeline& p) {
      return reader(kRequests.pending2unack(p, true, {"me", std::chrono::seconds(1)}, {200, 200}, 1s));
    },
    [](Pipeline& p) {
      static const Moves kStaging(kKeys, {true, 0, 0});
      return reader(kStaging.send(p, {{kId, "x"}, {kId, ""}}, {}));
    },
    [](Pipeline& p) { return reader(read_layout(p, kKeys)); },
    [](Pipeline& p) { return reader(set_layout(p, kKeys, {}, 8)); },
    [](Pipeline& p) { return reader(has_messages(p, kKeys)); },
    [](Pipeline& p) { return reader(read_pause(p, kKeys)); },
    [](Pipeline& p) {
      return reader(set_pause(p, kKeys, {-1, true, "why", 1s}));
    },
    [](Pipeline& p) {
      return reader(kRequests.headers(p, {kId, kId}));
    },
    [](Pipeline& p) { return reader(scan(p, kKeys, Collection::headers, "0")); },
    [](Pipeline& p) {
      return reader(kRequests.send_keyed(p, {{kId, "x", {}, "key"}, {kId, "y"}}, {}, {}));
    },
    [](Pipeline& p) { return reader(read_sender_settings(p, kKeys)); },
};

// True if the server's bytes contain the password, which libFuzzer guesses now and then. Errors quote the server.
bool server_sends_password = false;

// What one input has led to.
struct Played {
  std::vector<std::size_t> moves{};  // indexes into kMoves; none: it listens
  std::vector<std::string> errors{};

  // Makes the call. It may throw an Error; any other exception is a finding.
  template <class Call>
  void allow_errors(Call call) {
    try {
      call();
    } catch (const delayqueue::Error& e) {
      REQUIRE((server_sends_password || std::string_view(e.what()).find(kPassword) == std::string_view::npos));
      errors.emplace_back(e.what());
    }
  }
};

void listen(Connection& link) {
  while (const auto reply = link.read_until(Clock::now())) {
    const Reply push(reply.get());
    if (push.size() >= 3 && push[0].text() == "message") use(std::string(push[2].text()));
  }
}

void run(Connection& link, Played& played) {
  if (played.moves.empty()) return listen(link);
  Pipeline pipeline(link);
  std::vector<Read> reads;
  for (const std::size_t move : played.moves) reads.push_back(kMoves[move](pipeline));
  pipeline.run();
  for (const auto& read : reads) played.allow_errors(read);
}

Played play(std::string_view input) {
  Played played;
  const auto byte = [&]() -> unsigned {
    if (input.empty()) return 0;
    const auto first = static_cast<unsigned char>(input.front());
    input.remove_prefix(1);
    return first;
  };
  const unsigned how = byte();
  const unsigned moves = byte() % 8;
  for (const char one : input.substr(0, moves)) {
    played.moves.push_back(static_cast<unsigned char>(one) % kMoves.size());
  }
  input.remove_prefix(played.moves.size());
  const bool logs_in = how % 2 == 0;
  const std::string reply_bytes = (logs_in ? kHello : "") + std::string(input);
  server_sends_password = reply_bytes.find(kPassword) != std::string::npos;
  played.allow_errors([&] {
    const Login login{"alice", kPassword, "fuzz", logs_in ? 0 : 1};
    const std::size_t piece = how / 2 == 0 ? reply_bytes.size() + 1 : how / 2;
    auto transport = std::make_unique<test::FedTransport>(test::in_pieces(reply_bytes, piece));
    Address address;
    address.host = "nowhere";
    Connection link(std::move(transport), address, login, {}, nullptr, Clock::now() + 60s);
    run(link, played);
  });
  return played;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  play({reinterpret_cast<const char*>(data), size});
  return 0;
}
