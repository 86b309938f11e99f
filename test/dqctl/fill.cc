#include "fill.h"

#include "support/server.h"

namespace test {

using namespace std::chrono;

void empty_server() { redis().cmd({"FLUSHALL"}); }

namespace {

// Gives all keys of a queue to one with another name, which a Producer may refuse.
void rename(const std::string& queue, const std::string& name) {
  for (const std::string& key : redis().cmd({"KEYS", "dp:" + queue + ":*"}).strings()) {
    redis().cmd({"RENAME", key, "dp:" + name + key.substr(3 + queue.size())});
  }
  redis().cmd({"SREM", "dp:queues", "dp:" + queue});
  redis().cmd({"SADD", "dp:queues", "dp:" + name});
}

}  // namespace

std::vector<std::string> send(const std::string& queue, const std::vector<std::string>& payloads, milliseconds delay) {
  if (queue.size() > 255 || queue.find_first_of("\n\t\x1b\xff\x01") != std::string::npos) {
    std::vector<std::string> ids = send("renamed", payloads, delay);
    rename("renamed", queue);
    return ids;
  }
  delayqueue::Producer producer(server().url(), queue);
  delayqueue::SendOptions options;
  options.delay = delay;
  std::vector<std::string> ids;
  for (const delayqueue::Sent& sent : producer.send_batch(payloads, options)) ids.push_back(sent.id);
  return ids;
}

std::vector<std::string> make_dead(const std::string& queue, const std::vector<std::string>& payloads,
                                   const std::string& reason) {
  const std::vector<std::string> ids = send(queue, payloads, hours(1));  // bury() leaves ids of ready ones in the list
  delayqueue::BuryOptions options;
  options.reason = reason;
  static_cast<void>(
      delayqueue::QueueAdmin(server().url(), delayqueue::QueueName::of_existing(queue)).bury(ids, options));
  return ids;
}

void fill_dead(Redis& client, int count) {
  static constexpr char kScript[] = R"lua(
    for i = ARGV[1] + 1, math.min(ARGV[1] + 20000, ARGV[3]) do
      local id = string.format('0190f7c2-5b1f-7000-8000-%012x', i)
      redis.call('ZADD', KEYS[1], 1000 + i / 1000, id)
      redis.call('HSET', KEYS[2], id, i % 2 == 0 and 'gateway timeout' or 'no such user')
      redis.call('SET', ARGV[2] .. id, 'payload ' .. i)
    end)lua";
  for (int from = 0; from < count; from += 20'000) {
    client.cmd(
        {"EVAL", kScript, "2", "dp:q:dead", "dp:q:reason", std::to_string(from), "dp:q:msg:", std::to_string(count)});
  }
}

std::string hold(const std::string& queue, milliseconds left, int deliveries, const std::string& reason) {
  const std::string base = "dp:" + queue;
  const std::string id = send(queue, {"held"}, hours(1)).front();
  redis().cmd({"ZREM", base + ":pending", id});
  const std::vector<std::string> time = redis().cmd({"TIME"}).strings();
  const long long end = std::stoll(time[0]) * 1'000'000 + std::stoll(time[1]) + left.count() * 1000;
  const std::string us = std::to_string(end - end % 1000 + 123);  // a real lease end is never a whole millisecond
  redis().cmd({"ZADD", base + ":unack", us.substr(0, us.size() - 6) + '.' + us.substr(us.size() - 6), id});
  if (deliveries > 1) redis().cmd({"HSET", base + ":attempts", id, std::to_string(deliveries) + ' ' + us});
  if (!reason.empty()) redis().cmd({"HSET", base + ":reason", id, reason});
  return id;
}

std::string id_made(milliseconds ago, int number) {
  const auto made = system_clock::now().time_since_epoch() - ago;
  const auto ms = static_cast<unsigned long long>(duration_cast<milliseconds>(made).count());
  char id[64];
  std::snprintf(id, sizeof id, "%08llx-%04llx-7000-8000-%012x", ms >> 16, ms & 0xFFFF, static_cast<unsigned>(number));
  return id;
}

std::vector<std::string> numbered(int count) {
  std::vector<std::string> payloads;
  for (int i = 0; i < count; ++i) payloads.push_back("payload " + std::to_string(i));
  return payloads;
}

}  // namespace test
