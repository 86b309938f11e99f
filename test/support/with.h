// Options that differ from the defaults in one member: with(&SendOptions::retries, 0).
#pragma once

#include <utility>

namespace test {

// The type of a member, not deduced from the value: a braced list and a number of another type convert to it.
template <class Member>
struct ValueOf {
  using type = Member;
};

template <class Options, class Member>
Options with(Member Options::*member, typename ValueOf<Member>::type value) {
  Options options;
  options.*member = std::move(value);
  return options;
}

}  // namespace test
