// The stored form of headers: pairs of name and value, one after another; before each name and each value its length. A
// length is a varint: seven bits in each byte, the lowest first, and the highest bit set in all bytes but the last.
//
// The first byte is the length of a name, so never 0: a later form of headers must begin with 0.
#pragma once

#include <delayqueue/message.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace delayqueue::store {

// Empty for no headers.
std::string packed(const Headers& headers);

// Headers of the library itself, whose names are reserved. They may follow other packed headers.
std::string packed_own(const std::vector<std::pair<std::string, std::string>>& own);

// Throws std::invalid_argument for a name that is reserved: see Headers.
void check_not_reserved(const Headers& headers);

// Unset: the bytes are no packed headers. Another program may have written any bytes.
std::optional<Headers> unpacked(std::string_view bytes);

}  // namespace delayqueue::store
