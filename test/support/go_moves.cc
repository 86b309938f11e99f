#include "support/go_moves.h"

#include "support/server.h"

namespace test {
namespace {

Reply run(const std::vector<std::string>& words) {
  Reply reply = redis().cmd(words);
  if (reply.error()) throw std::runtime_error(words[0] + ": " + reply.text);
  return reply;
}

Reply run(const std::string& script, const std::vector<std::string>& keys, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"EVAL", script, std::to_string(keys.size())};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run(words);
}

std::vector<std::string> prefixed(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

long long GoWorker::now() const { return std::stoll(run({"TIME"}).array.at(0).text); }

void GoWorker::send(const std::string& id, const std::string& payload, long long delay_s, int retries) {
  run({"SET", keys_.bodies + id, payload, "EX", std::to_string(delay_s + 3600)});
  run({"HSET", keys_.count, id, std::to_string(retries)});
  run({"ZADD", keys_.pending, std::to_string(now() + delay_s), id});
}

void GoWorker::pending2ready() {
  run(R"lua(
    local due = redis.call('ZRANGEBYSCORE', KEYS[1], '0', ARGV[1])
    for _, id in ipairs(due) do redis.call('LPUSH', KEYS[2], id) end
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '0', ARGV[1])
    return #due)lua",
      {keys_.pending, keys_.ready}, {std::to_string(now())});
}

std::optional<std::string> GoWorker::take(bool from_retry, long long lease_s) {
  const Reply id = run(R"lua(
    local id = redis.call('RPOP', KEYS[1])
    if id then redis.call('ZADD', KEYS[2], ARGV[1], id) end
    return id)lua",
                       {from_retry ? keys_.retry : keys_.ready, keys_.unack}, {std::to_string(now() + lease_s)});
  return id.nil() ? std::nullopt : std::optional(id.text);
}

std::optional<std::string> GoWorker::body(const std::string& id) {
  const Reply body = run({"GET", keys_.bodies + id});
  return body.nil() ? std::nullopt : std::optional(body.text);
}

void GoWorker::ack(const std::string& id) {
  run({"ZREM", keys_.unack, id});
  run({"DEL", keys_.bodies + id});
  run({"HDEL", keys_.count, id});
}

// The script compares with nil, but a missing id gives false. So it always adds the id to unack.
void GoWorker::nack(const std::string& id, long long delay_s) {
  run(R"lua(
    if redis.call('ZRANK', KEYS[1], ARGV[2]) ~= nil then redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2]) end
    return 0)lua",
      {keys_.unack}, {std::to_string(now() + delay_s), id});
}

std::pair<GoWorker::Ids, GoWorker::Ids> GoWorker::unack2retry() {
  const Reply moved = run(R"lua(
    local retried, failed = {}, {}
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '0', ARGV[1])) do
      if tonumber(redis.call('HGET', KEYS[2], id) or 0) > 0 then
        redis.call('HINCRBY', KEYS[2], id, -1)
        redis.call('LPUSH', KEYS[3], id)
        retried[#retried + 1] = id
      else
        redis.call('HDEL', KEYS[2], id)
        redis.call('SADD', KEYS[4], id)
        failed[#failed + 1] = id
      end
    end
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '0', ARGV[1])
    return {retried, failed})lua",
                          {keys_.unack, keys_.count, keys_.retry, keys_.garbage}, {std::to_string(now())});
  return {moved.array.at(0).strings(), moved.array.at(1).strings()};
}

GoWorker::Ids GoWorker::read_garbage() { return run({"SMEMBERS", keys_.garbage}).strings(); }

void GoWorker::delete_garbage(const Ids& ids) {
  if (ids.empty()) return;
  Ids bodies;
  for (const std::string& id : ids) bodies.push_back(keys_.bodies + id);
  run(prefixed({"DEL"}, bodies));
  run(prefixed({"SREM", keys_.garbage}, ids));
}

void GoWorker::intercept(const std::string& id) {
  const bool taken = !(run({"LREM", keys_.ready, "0", id}) == 0) || !(run({"ZREM", keys_.pending, id}) == 0);
  if (taken) run({"DEL", keys_.bodies + id});
  run({"HDEL", keys_.count, id});
  if (!taken) run({"LREM", keys_.retry, "0", id});
}

}  // namespace test
