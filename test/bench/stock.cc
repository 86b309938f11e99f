#include "bench/stock.h"

#include "bench/bare.h"
#include "store/record.h"

namespace bench {
namespace {

using delayqueue::store::Keys;

constexpr std::size_t kPiece = 10'000;  // messages that are made and written at a time
constexpr std::size_t kWriters = 2;     // one writer makes requests while the server handles those of the other

// Each call moves some thousands of ids and returns how many are left.
constexpr char kPendingToReady[] = R"lua(
  local ids = redis.call('ZRANGE', KEYS[1], 0, 4999)
  if #ids > 0 then
    redis.call('LPUSH', KEYS[2], unpack(ids))
    redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #ids - 1)
  end
  return redis.call('ZCARD', KEYS[1]))lua";

constexpr char kListToZset[] = R"lua(
  local ids = redis.call('LRANGE', KEYS[1], -2500, -1)
  local scores = {}
  for i = #ids, 1, -1 do
    scores[#scores + 1] = '1700000030.123457'
    scores[#scores + 1] = ids[i]
  end
  if #ids > 0 then
    redis.call('ZADD', KEYS[2], unpack(scores))
    redis.call('LTRIM', KEYS[1], 0, -#ids - 1)
  end
  return redis.call('LLEN', KEYS[1]))lua";

}  // namespace

Stock::Stock(Server& server, const Keys& keys, std::size_t count)
    : server_(server), keys_(keys), ids_(delayqueue::store::new_ids(count)) {
  const auto write = [&](std::size_t first) {
    Wire wire(server_.socket());
    for (std::size_t begin = first * kPiece; begin < count; begin += kWriters * kPiece) {
      const auto from = ids_.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto to = ids_.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kPiece, count));
      run(wire, bare_sends(keys_, {from, to}, Bodies::mset, begin), 2);
    }
  };
  std::vector<std::future<void>> writers;
  for (std::size_t i = 0; i < kWriters; ++i) writers.push_back(std::async(std::launch::async, write, i));
  for (auto& writer : writers) writer.get();
}

void Stock::pending_to_ready() { call(kPendingToReady, keys_.pending, keys_.ready); }

void Stock::pending_to_unack() { server_.command({"RENAME", keys_.pending, keys_.unack}); }

void Stock::unack_to_pending() {
  call(kListToZset, keys_.retry, keys_.unack);
  server_.command({"RENAME", keys_.unack, keys_.pending});
  server_.command({"DEL", keys_.attempts, keys_.reason});
}

void Stock::keep_pending() { server_.command({"COPY", keys_.pending, copy()}); }

void Stock::restore_pending() {
  server_.command({"RENAME", copy(), keys_.pending});
  server_.command({"DEL", keys_.ready, keys_.unack, keys_.garbage});
}

std::size_t Stock::size(const std::string& state) {
  const bool list = state == keys_.ready || state == keys_.retry;
  return std::stoul(server_.command({list ? "LLEN" : "ZCARD", state}));
}

void Stock::call(const char* script, const std::string& from, const std::string& to) {
  while (server_.command({"EVAL", script, "2", from, to}) != "0") {
  }
}

}  // namespace bench
