#include "support/saved_queue.h"

#include <doctest/doctest.h>

namespace test {

SavedQueue::SavedQueue(Scene& scene) : scene_(scene) {
  script(R"lua(
    redis.call('UNLINK', 'saved', 'ttls')
    for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do
      redis.call('HSET', 'saved', key, redis.call('DUMP', key))
      redis.call('HSET', 'ttls', key, math.max(0, redis.call('PTTL', key)))
    end)lua");
}

void SavedQueue::restore() {
  script(R"lua(
    for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do redis.call('UNLINK', key) end
    local saved = redis.call('HGETALL', 'saved')
    for i = 1, #saved, 2 do
      redis.call('RESTORE', saved[i], redis.call('HGET', 'ttls', saved[i]), saved[i + 1])
    end)lua");
}

Cells SavedQueue::cells() {
  const auto flat = script(R"lua(
    local out, lists = {}, {}
    local function add(place, id, value) out[#out + 1], out[#out + 2], out[#out + 3] = place, id, value end
    for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do
      local place, kind = string.sub(key, #ARGV[1] + 2), redis.call('TYPE', key).ok
      if string.sub(place, 1, 4) == 'msg:' then
        local payload = kind == 'string' and redis.call('GETRANGE', key, 0, 19) or kind
        add('msg', string.sub(place, 5), payload .. ' ' .. math.floor(redis.call('PTTL', key) / 60000 + 0.5))
      elseif kind == 'zset' or kind == 'hash' then
        local range = kind == 'zset' and {0, -1, 'WITHSCORES'} or {}
        local all = redis.call(kind == 'zset' and 'ZRANGE' or 'HGETALL', key, unpack(range))
        for i = 1, #all, 2 do add(place, all[i], #all[i + 1] < 1000 and all[i + 1] or 'long') end
      elseif kind == 'list' then
        local counts = {}
        for _, id in ipairs(redis.call('LRANGE', key, 0, -1)) do counts[id] = (counts[id] or 0) + 1 end
        for id, n in pairs(counts) do add(place, id, tostring(n)) end
      elseif kind == 'set' then
        for _, id in ipairs(redis.call('SMEMBERS', key)) do add(place, id, '') end
      else
        add(place, '', redis.call('GET', key))
      end
    end
    return out)lua")
                        .strings();
  Cells cells;
  for (std::size_t i = 0; i + 2 < flat.size(); i += 3) cells[{flat[i], flat[i + 1]}] = flat[i + 2];
  return cells;
}

Reply SavedQueue::script(const char* source) {
  const Reply reply = scene_.cmd({"EVAL", source, "0", scene_.keys().base});
  REQUIRE_MESSAGE(!reply.error(), reply.text);
  return reply;
}

bool alike(const std::string& a, const std::string& b) {
  const char* x = a.c_str();
  const char* y = b.c_str();
  while (*x != '\0' && *y != '\0') {
    char *after_x = nullptr, *after_y = nullptr;
    const double one = std::strtod(x, &after_x);
    const double other = std::strtod(y, &after_y);
    if (after_x != x && after_y != y) {
      if (std::abs(one - other) > 1e-7 * std::abs(one)) return false;
      x = after_x;
      y = after_y;
    } else if (*x++ != *y++) {
      return false;
    }
  }
  return *x == *y;
}

}  // namespace test
