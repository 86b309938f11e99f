#include "store/integrity.h"

#include "store/headers.h"
#include "store/record.h"
#include "store/replies.h"
#include "store/script_calls.h"

#include <stdexcept>
#include <string_view>

namespace delayqueue::store {
namespace {

using redis::Reply;

template <std::size_t kStep>
Scanned as_scanned(Reply reply) {
  Scanned scanned{as_text(reply[0]), {}};
  const Reply found = reply[1];
  for (std::size_t i = 0; i < found.size(); i += kStep) scanned.ids.push_back(as_text(found[i]));
  return scanned;
}

Scanned as_scanned_headers(Reply reply) {
  Scanned scanned{as_text(reply[0]), {}};
  const Reply found = reply[1];
  for (std::size_t i = 0; i + 1 < found.size(); i += 2) {
    scanned.ids.push_back(as_text(found[i]));
    if (!unpacked(found[i + 1].text())) scanned.damaged.push_back(scanned.ids.back());
  }
  return scanned;
}

// As the scripts read it: see include/entry.lua.
bool is_entry(std::string_view text) {
  if (text.size() < kIdLength + 4 || text.size() > kIdLength + 34 || !is_id(text.substr(0, kIdLength))) return false;
  text.remove_prefix(kIdLength);
  int digits = 0, numbers = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] >= '0' && text[i] <= '9') {
      ++digits;
    } else if (text[i] != ' ' || (i > 0 && digits == 0)) {
      return false;
    } else {
      digits = 0;
      ++numbers;
    }
  }
  return numbers == 2 && digits > 0;
}

ScannedKeys as_scanned_keys(Reply reply) {
  ScannedKeys scanned{as_text(reply[0]), {}};
  const Reply found = reply[1];
  for (std::size_t i = 0; i + 1 < found.size(); i += 2) {
    if (!is_entry(found[i + 1].text())) scanned.damaged.push_back(as_text(found[i]));
  }
  return scanned;
}

ScannedTotals as_totals(Reply reply) {
  ScannedTotals totals{as_text(reply[0]), {}};
  const Reply found = reply[1];
  for (std::size_t i = 0; i + 1 < found.size(); i += 2) {
    totals.fields.emplace_back(as_text(found[i]), as_text(found[i + 1]));
  }
  return totals;
}

const std::string& key_of(const Keys& keys, Collection collection) {
  switch (collection) {
    case Collection::pending:
      return keys.pending;
    case Collection::unack:
      return keys.unack;
    case Collection::dead:
      return keys.dead;
    case Collection::count:
      return keys.count;
    case Collection::garbage:
      return keys.garbage;
    case Collection::attempts:
      return keys.attempts;
    case Collection::reason:
      return keys.reason;
    case Collection::headers:
      return keys.headers;
    case Collection::keys:
      return keys.keys;
    case Collection::bodies:
      break;
  }
  throw std::logic_error("cannot name one key of all bodies: each body has its own");
}

// The SCAN pattern of all keys that begin with `text`.
std::string pattern_of(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("*?[]\\^-").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern + '*';
}

Answer<std::vector<std::string>> recheck(Pipeline& pipeline, const Keys& keys, const std::vector<Candidate>& candidates,
                                         const char* mode, int retries) {
  calls::check call(pipeline, keys);
  for (const auto& [id, verdict] : candidates) call.body({keys.bodies, id});
  call.args(arg::before_id(keys.bodies.size()), arg::mode(mode), arg::retries(retries));
  for (const auto& [id, verdict] : candidates) call.each(arg::earlier(std::string_view(&verdict, 1)));
  return {pipeline, as_words};
}

}  // namespace

Answer<Scanned> scan(Pipeline& pipeline, const Keys& keys, Collection collection, const std::string& cursor) {
  if (collection == Collection::bodies) {
    pipeline.command("SCAN").arg(cursor).arg("MATCH").arg(pattern_of(keys.bodies)).arg("COUNT").arg(kScannedKeys);
    return {pipeline, as_scanned<1>};
  }
  const bool zset =
      collection == Collection::pending || collection == Collection::unack || collection == Collection::dead;
  pipeline.command(zset                                ? "ZSCAN"
                   : collection == Collection::garbage ? "SSCAN"
                                                       : "HSCAN")
      .key(key_of(keys, collection));
  pipeline.arg(cursor).arg("COUNT").arg(kScanned);
  if (collection == Collection::headers) return {pipeline, as_scanned_headers};
  return collection == Collection::garbage ? Answer<Scanned>(pipeline, as_scanned<1>)
                                           : Answer<Scanned>(pipeline, as_scanned<2>);
}

Answer<ScannedTotals> scan_totals(Pipeline& pipeline, const Keys& keys, const std::string& cursor) {
  pipeline.command("HSCAN").key(keys.stats).arg(cursor).arg("COUNT").arg(kScanned);
  return {pipeline, as_totals};
}

Answer<ScannedKeys> scan_unique(Pipeline& pipeline, const Keys& keys, const std::string& cursor) {
  pipeline.command("HSCAN").key(keys.unique).arg(cursor).arg("COUNT").arg(kScanned);
  return {pipeline, as_scanned_keys};
}

Answer<std::size_t> size(Pipeline& pipeline, const Keys& keys, Collection collection) {
  if (collection == Collection::bodies) {
    pipeline.command("DBSIZE");
  } else {
    const bool zset =
        collection == Collection::pending || collection == Collection::unack || collection == Collection::dead;
    pipeline.command(zset                                ? "ZCARD"
                     : collection == Collection::garbage ? "SCARD"
                                                         : "HLEN")
        .key(key_of(keys, collection));
  }
  return {pipeline, as_count};
}

Answer<std::string> type(Pipeline& pipeline, const std::string& key) {
  pipeline.command("TYPE").key(key);
  return {pipeline, as_text};
}

Answer<std::size_t> list_length(Pipeline& pipeline, const std::string& list) {
  pipeline.command("LLEN").key(list);
  return {pipeline, as_count};
}

Answer<std::vector<std::string>> list_page(Pipeline& pipeline, const std::string& list, std::size_t from,
                                           std::size_t most) {
  pipeline.command("LRANGE").key(list).arg(from).arg(from + most - 1);
  return {pipeline, as_texts};
}

Answer<std::vector<std::string>> classify(Pipeline& pipeline, const Keys& keys, const std::vector<std::string>& ids) {
  calls::check call(pipeline, keys);
  for (const std::string& id : ids) call.body({keys.bodies, id});
  call.args(arg::before_id(keys.bodies.size()), arg::mode("classify"), arg::retries(0));
  return {pipeline, as_words};
}

Answer<std::vector<std::string>> confirm(Pipeline& pipeline, const Keys& keys,
                                         const std::vector<Candidate>& candidates) {
  return recheck(pipeline, keys, candidates, "confirm", 0);
}

Answer<std::vector<std::string>> repair(Pipeline& pipeline, const Keys& keys, const std::vector<Candidate>& candidates,
                                        int retries) {
  return recheck(pipeline, keys, candidates, "repair", retries);
}

}  // namespace delayqueue::store
