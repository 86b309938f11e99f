#include "bench/bare.h"

#include "bench/part.h"
#include "redis/resp.h"
#include "store/moves.h"
#include "store/record.h"

namespace bench {
namespace {

using delayqueue::redis::append_head;
using delayqueue::redis::append_word;
using delayqueue::store::Keys;
using Words = std::vector<std::string_view>;

constexpr std::size_t kBatch = delayqueue::store::kBatch;
constexpr char kLease[] = "1700000030.123457";  // its end

// A score in the library's form: seconds and a fraction of six digits.
std::string score(std::int64_t us) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%06lld", static_cast<long long>(us / 1'000'000),
                static_cast<long long>(us % 1'000'000));
  return text;
}

void append_number(std::string& out, std::size_t number) { append_head(out, ':', number); }

void append_array(std::string& out, const Words& words) {
  append_head(out, '*', words.size());
  for (const std::string_view word : words) append_word(out, word);
}

// The moves of Moves::scripts, with the commands of Moves::commands and nothing else.
constexpr char kSend[] = R"lua(
local counts = {}
for i = 1, #ARGV - 1 do
  counts[2 * i - 1] = ARGV[1 + i]
  counts[2 * i] = ARGV[1]
end
redis.call('HSET', KEYS[1], unpack(counts))
return redis.call('LPUSH', KEYS[2], unpack(ARGV, 2)))lua";

constexpr char kTake[] = R"lua(
local ids, lease = redis.call('RPOP', KEYS[1], ARGV[1]), ARGV[2]
local leases = {}
for i = 1, #ids do
  leases[2 * i - 1] = lease
  leases[2 * i] = ids[i]
end
redis.call('ZADD', KEYS[2], unpack(leases))
return table.concat(ids, ' '))lua";

constexpr char kSettle[] = R"lua(
local ids, sub = {}, string.sub
for i = 1, #KEYS - 2 do ids[i] = sub(KEYS[2 + i], -36) end
redis.call('ZREM', KEYS[1], unpack(ids))
redis.call('UNLINK', unpack(KEYS, 3))
return redis.call('HDEL', KEYS[2], unpack(ids)))lua";

// A batch that is being built.
struct BatchBuilder {
  Batch batch;

  void add(std::string_view command, std::initializer_list<std::string_view> first, const Words& rest = {}) {
    Words words{command};
    words.insert(words.end(), first.begin(), first.end());
    words.insert(words.end(), rest.begin(), rest.end());
    append(batch.request, words);
  }
};

struct IdSlice {
  Words ids;
  std::vector<std::string> bodies;  // keys of the bodies
  Words body_words;
};

IdSlice slice_of(const Keys& keys, const std::vector<std::string>& ids, std::size_t begin, std::size_t batch = kBatch) {
  IdSlice slice;
  for (std::size_t i = begin; i < std::min(begin + batch, ids.size()); ++i) {
    slice.ids.push_back(ids[i]);
    slice.bodies.push_back(keys.bodies + ids[i]);
  }
  slice.body_words.assign(slice.bodies.begin(), slice.bodies.end());
  return slice;
}

// Where messages wait for a consumer: pending if they were scheduled, ready if they were due when they were sent.
enum class Route { pending, ready };

struct SendForm {
  Bodies bodies;
  std::size_t first;  // the number of the first id
  std::string body;
  std::size_t batch = kBatch;
  Route route = Route::pending;
  Moves moves = Moves::commands;  // scripts: of Bodies::mset and Route::ready
};

std::vector<Batch> make_sends(const Keys& keys, const std::vector<std::string>& ids, const SendForm& form) {
  std::vector<Batch> batches;
  for (std::size_t begin = 0; begin < ids.size(); begin += form.batch) {
    const IdSlice members = slice_of(keys, ids, begin, form.batch);
    const std::string due = score(bare_due_us(form.first + begin));
    BatchBuilder builder;
    Words all, counts, scores;
    for (std::size_t i = 0; i < members.ids.size(); ++i) {
      if (form.bodies == Bodies::set) builder.add("SET", {members.body_words[i], form.body});
      if (form.bodies == Bodies::set) builder.batch.answer += "+OK\r\n";
      all.insert(all.end(), {members.body_words[i], form.body});
      counts.insert(counts.end(), {members.ids[i], "3"});
      scores.insert(scores.end(), {due, members.ids[i]});
    }
    if (form.bodies == Bodies::mset) builder.add("MSET", {}, all);
    if (form.bodies == Bodies::mset) builder.batch.answer += "+OK\r\n";
    if (form.moves == Moves::scripts) {
      builder.add("EVAL", {kSend, "2", keys.count, keys.ready, "3"}, members.ids);
      batches.push_back(std::move(builder.batch));
      continue;
    }
    builder.add("HSET", {keys.count}, counts);
    append_number(builder.batch.answer, members.ids.size());
    if (form.route == Route::ready) {
      builder.add("LPUSH", {keys.ready}, members.ids);
    } else {
      builder.add("ZADD", {keys.pending}, scores);
      append_number(builder.batch.answer, members.ids.size());
    }
    batches.push_back(std::move(builder.batch));
  }
  return batches;
}

// The same as make_receives() for messages in ready, by scripts.
std::vector<Batch> make_receives_by_scripts(const Keys& keys, const std::vector<std::string>& ids) {
  const std::string body = payload();
  std::vector<Batch> batches;
  for (std::size_t begin = 0; begin < ids.size(); begin += kBatch) {
    const IdSlice members = slice_of(keys, ids, begin);
    BatchBuilder builder;
    builder.add("EVAL", {kTake, "2", keys.ready, keys.unack, std::to_string(members.ids.size()), kLease});
    builder.add("MGET", {}, members.body_words);
    builder.add("EVAL", {kSettle, std::to_string(2 + members.ids.size()), keys.unack, keys.count}, members.body_words);
    std::string joined;
    for (const std::string_view id : members.ids) joined.append(joined.empty() ? "" : " ").append(id);
    append_word(builder.batch.answer, joined);
    append_array(builder.batch.answer, Words(members.ids.size(), body));
    append_number(builder.batch.answer, members.ids.size());
    batches.push_back(std::move(builder.batch));
  }
  return batches;
}

std::vector<Batch> make_receives(const Keys& keys, const std::vector<std::string>& ids, Route route) {
  const std::string body = payload();
  const std::string now = score(bare_due_us(ids.size()));
  std::vector<Batch> batches;
  for (std::size_t begin = 0; begin < ids.size(); begin += kBatch) {
    const IdSlice members = slice_of(keys, ids, begin);
    const std::string count = std::to_string(members.ids.size());
    const std::string last = std::to_string(members.ids.size() - 1);
    Words leases;
    for (const std::string_view id : members.ids) leases.insert(leases.end(), {kLease, id});
    BatchBuilder builder;
    if (route == Route::pending) {
      builder.add("ZRANGEBYSCORE", {keys.pending, "-inf", now, "LIMIT", "0", count});
      builder.add("LPUSH", {keys.ready}, members.ids);
      builder.add("ZREMRANGEBYRANK", {keys.pending, "0", last});
    }
    builder.add("RPOP", {keys.ready, count});
    builder.add("ZADD", {keys.unack}, leases);
    builder.add("MGET", {}, members.body_words);
    builder.add("ZREM", {keys.unack}, members.ids);
    builder.add("UNLINK", {}, members.body_words);
    builder.add("HDEL", {keys.count}, members.ids);

    std::string& answer = builder.batch.answer;
    if (route == Route::pending) {
      append_array(answer, members.ids);
      for (int i = 0; i < 2; ++i) append_number(answer, members.ids.size());
    }
    append_array(answer, members.ids);
    append_number(answer, members.ids.size());
    append_array(answer, Words(members.ids.size(), body));
    for (int i = 0; i < 3; ++i) append_number(answer, members.ids.size());
    batches.push_back(std::move(builder.batch));
  }
  return batches;
}

// Reads the answer to a batch. Throws std::runtime_error if it differs from the expected one.
void read_answer(Wire& wire, const Batch& batch) {
  const std::string_view answer = wire.read(batch.answer.size());
  if (answer != batch.answer) {
    throw std::runtime_error("limits: the server answered " + std::string(answer.substr(0, 200)));
  }
}

// Reads the length of ready, which is the last answer to a batch of bare_due_sends.
void read_length(Wire& wire) {
  while (wire.read(1) != "\n") {
  }
}

}  // namespace

std::int64_t bare_due_us(std::size_t number) {
  return 1'700'000'000'000'457 + 1'000 * static_cast<std::int64_t>(number / kBatch);
}

std::vector<Batch> bare_sends(const Keys& keys, const std::vector<std::string>& ids, Bodies bodies, std::size_t first) {
  return make_sends(keys, ids, {bodies, first, payload()});
}

std::vector<Batch> bare_sends_of(const Keys& keys, const std::vector<std::string>& ids, const std::string& body,
                                 std::size_t batch) {
  return make_sends(keys, ids, {Bodies::mset, 0, body, batch});
}

std::vector<Batch> bare_receives(const Keys& keys, const std::vector<std::string>& ids) {
  return make_receives(keys, ids, Route::pending);
}

std::vector<Batch> bare_due_sends(const Keys& keys, const std::vector<std::string>& ids, Moves moves) {
  return make_sends(keys, ids, {Bodies::mset, 0, payload(), kBatch, Route::ready, moves});
}

std::vector<Batch> bare_due_receives(const Keys& keys, const std::vector<std::string>& ids, Moves moves) {
  return moves == Moves::scripts ? make_receives_by_scripts(keys, ids) : make_receives(keys, ids, Route::ready);
}

std::vector<Batch> bare_deliveries(const Keys& keys, const std::vector<std::string>& ids) {
  const std::string now = score(bare_due_us(ids.size()));
  const std::string body = payload();
  std::vector<Batch> batches;
  for (const std::string& id : ids) {
    const std::string key = keys.bodies + id;
    BatchBuilder take, fetch, settle;
    take.add("ZRANGEBYSCORE", {keys.pending, "-inf", now, "LIMIT", "0", "1"});
    take.add("HMGET", {keys.count, id});
    take.add("ZADD", {keys.unack, kLease, id});
    take.add("ZREM", {keys.pending, id});
    append_array(take.batch.answer, {id});
    append_array(take.batch.answer, {"3"});
    for (int i = 0; i < 2; ++i) append_number(take.batch.answer, 1);
    fetch.add("MGET", {key});
    append_array(fetch.batch.answer, {body});
    settle.add("ZREM", {keys.unack, id});
    settle.add("UNLINK", {key});
    settle.add("HDEL", {keys.count, id});
    for (int i = 0; i < 3; ++i) append_number(settle.batch.answer, 1);
    for (BatchBuilder* builder : {&take, &fetch, &settle}) batches.push_back(std::move(builder->batch));
  }
  return batches;
}

std::vector<Batch> bare_residents(const Keys& keys) {
  const std::vector<std::string> ids = delayqueue::store::new_ids(1'000);
  BatchBuilder builder;
  Words leases, counts;
  for (const std::string& id : ids) {
    leases.insert(leases.end(), {"1700000060.123457", id});
    counts.insert(counts.end(), {id, "3"});
  }
  builder.add("ZADD", {keys.unack}, leases);
  builder.add("HSET", {keys.count}, counts);
  for (int i = 0; i < 2; ++i) append_number(builder.batch.answer, ids.size());
  return {builder.batch};
}

double run(Wire& wire, const std::vector<Batch>& batches, std::size_t in_flight) {
  const auto start = Clock::now();
  for (std::size_t next = 0, answered = 0; answered < batches.size(); ++answered) {
    while (next < std::min(answered + in_flight, batches.size())) wire.write(batches[next++].request);
    read_answer(wire, batches[answered]);
  }
  return since(start);
}

double run_end_to_end(const std::string& socket, const std::vector<Batch>& sends, const std::vector<Batch>& receives) {
  Wire sender(socket), receiver(socket);
  std::vector<std::promise<void>> stored(sends.size());
  std::vector<std::shared_future<void>> is_stored;
  for (std::promise<void>& one : stored) is_stored.emplace_back(one.get_future());
  const auto send_all = [&] {
    for (std::size_t i = 0; i < sends.size(); ++i) {
      try {
        sender.write(sends[i].request);
        read_answer(sender, sends[i]);
        read_length(sender);
        stored[i].set_value();
      } catch (...) {
        return stored[i].set_exception(std::current_exception());  // ends the receives
      }
    }
  };
  const auto start = Clock::now();
  const std::future<void> sending = std::async(std::launch::async, send_all);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    is_stored[std::min(i + kAhead, sends.size() - 1)].get();
    receiver.write(receives[i].request);
    read_answer(receiver, receives[i]);
  }
  return since(start);
}

}  // namespace bench
