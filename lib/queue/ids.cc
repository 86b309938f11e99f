#include <delayqueue/ids.h>

#include "queue/option_checks.h"
#include "redis/sha1.h"
#include "store/record.h"

#include <algorithm>
#include <utility>

namespace delayqueue {

std::string new_id() { return std::move(store::new_ids(1).front()); }

// RFC 9562, 5.5: the first 16 bytes of the SHA-1 of the namespace and the name, with version and variant.
std::string id_from_name(std::string_view name, std::string_view name_space) {
  const auto space = store::bytes_of(id_of("name_space", name_space));
  std::string text(space->begin(), space->end());
  text += name;
  const auto digest = redis::sha1_of(text);
  store::IdBytes bytes{};
  std::copy_n(digest.begin(), bytes.size(), bytes.begin());
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0fU) | 0x50U);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3fU) | 0x80U);
  return store::text_of(bytes);
}

}  // namespace delayqueue
