#include "support/model_dump.h"

#include "store/replies.h"
#include "store/scripts.h"
#include "support/server.h"

namespace test::model {
namespace {

using delayqueue::redis::Pipeline;
using delayqueue::store::as_texts;

constexpr char kDump[] = R"lua(
  local time = redis.call('TIME')
  local base = KEYS[1] .. ':'
  local known = {
    pending = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
    ready = function(key) return redis.call('LRANGE', key, 0, -1) end,
    ['retry:cnt'] = function(key) return redis.call('HGETALL', key) end,
    garbage = function(key) return redis.call('SMEMBERS', key) end,
  }
  known.unack, known.dead, known.retry = known.pending, known.pending, known.ready
  known.attempts, known.reason, known.stats = known['retry:cnt'], known['retry:cnt'], known['retry:cnt']
  known.headers = known['retry:cnt']
  local parts, bodies, others = {}, {}, {}
  for _, key in ipairs(redis.call('KEYS', base .. '*')) do
    local name = string.sub(key, #base + 1)
    if known[name] then
      parts[name] = known[name](key)
    elseif string.sub(name, 1, 4) == 'msg:' then
      bodies[#bodies + 1] = string.sub(name, 5)
      bodies[#bodies + 1] = redis.call('GET', key)
      bodies[#bodies + 1] = redis.call('PTTL', key)
    elseif name ~= 'wake' and name ~= 'watch' and name ~= 'consumers' and name ~= 'settings' then  -- hints
      others[#others + 1] = name
    end
  end
  local out = {time[1] * 1000000 + time[2], bodies, others}
  for _, name in ipairs({'pending', 'unack', 'dead', 'ready', 'retry', 'retry:cnt', 'attempts', 'reason', 'stats',
      'garbage', 'headers'}) do
    out[#out + 1] = parts[name] or {}
  end
  return out)lua";

std::string& dump_sha() {
  static std::string sha;
  return sha;
}

std::map<std::string, std::int64_t> times(delayqueue::redis::Reply reply) {
  std::map<std::string, std::int64_t> out;
  for (std::size_t i = 0; i + 1 < reply.size(); i += 2) {
    const std::string score(reply[i + 1].text());
    out[std::string(reply[i].text())] = std::llround(std::strtod(score.c_str(), nullptr) * 1e6);
  }
  return out;
}

std::map<std::string, std::string> fields(delayqueue::redis::Reply reply) {
  std::map<std::string, std::string> out;
  for (std::size_t i = 0; i + 1 < reply.size(); i += 2) out.emplace(reply[i].text(), reply[i + 1].text());
  return out;
}

void load(std::string_view body, std::string_view sha) {
  const test::Reply reply = test::redis().cmd({"SCRIPT", "LOAD", std::string(body)});
  if (reply.error() || (!sha.empty() && reply.text != sha)) throw std::runtime_error("SCRIPT LOAD: " + reply.text);
  if (sha.empty()) dump_sha() = reply.text;
}

}  // namespace

std::string Dump::left_over() const {
  std::string out;
  const auto add = [&out](const std::string& what) { out += (out.empty() ? "" : ", ") + what; };
  for (const auto& [name, zset] : {std::pair("pending", &pending), {"unack", &unack}, {"dead", &dead}}) {
    for (const auto& [id, time] : *zset) add(id + " in " + name);
  }
  for (const auto& [name, hash] :
       {std::pair("retry:cnt", &count), {"attempts", &attempts}, {"reason", &reason}, {"headers", &headers}}) {
    for (const auto& [id, value] : *hash) add(id + " in " + name);
  }
  for (const auto& [name, list] : {std::pair("ready", &ready), {"retry", &retry}}) {
    for (const auto& id : *list) add(id + " in " + name);
  }
  for (const auto& id : garbage) add(id + " in garbage");
  for (const auto& [id, body] : bodies) add("body of " + id);
  for (const auto& name : others) add(name);
  return out;
}

void load_scripts() {
  for (const auto* script : delayqueue::store::scripts::all()) load(script->body, script->sha1);
  load(kDump, {});
}

void add_dump(Pipeline& pipeline, const std::string& base) {
  pipeline.command("EVALSHA").arg(dump_sha()).arg("1").arg(base);
}

Dump read_dump(delayqueue::redis::Reply reply) {
  Dump dump;
  dump.now_us = reply[0].integer();
  for (std::size_t i = 0; i + 2 < reply[1].size(); i += 3) {
    Body& body = dump.bodies[std::string(reply[1][i].text())];
    body.payload = reply[1][i + 1].text();
    const auto life_ms = reply[1][i + 2].integer();
    if (life_ms >= 0) body.expires_us = dump.now_us + life_ms * 1000;
  }
  for (std::string& name : as_texts(reply[2])) dump.others.insert(std::move(name));
  dump.pending = times(reply[3]);
  dump.unack = times(reply[4]);
  dump.dead = times(reply[5]);
  dump.ready = as_texts(reply[6]);
  dump.retry = as_texts(reply[7]);
  dump.count = fields(reply[8]);
  dump.attempts = fields(reply[9]);
  dump.reason = fields(reply[10]);
  dump.stats = fields(reply[11]);
  dump.stats.erase("probe");  // a hint, tested elsewhere
  for (std::string& id : as_texts(reply[12])) dump.garbage.insert(std::move(id));
  dump.headers = fields(reply[13]);
  return dump;
}

void add_time(Pipeline& pipeline) { pipeline.command("TIME"); }

std::int64_t read_time(delayqueue::redis::Reply reply) { return reply[0].integer() * 1'000'000 + reply[1].integer(); }

}  // namespace test::model
