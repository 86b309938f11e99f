// Strict parsers of what clients of dqctl serve send. They accept any bytes: test/fuzz/serve_fuzz.cc calls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dqctl {

// Refuses a request: the answer has this status and text.
class HttpError : public std::runtime_error {
 public:
  HttpError(int status, const std::string& what) : std::runtime_error(what), status_(status) {}

  int status() const { return status_; }

 private:
  int status_;
};

inline constexpr std::size_t kMostHead = 8 * 1024;   // bytes of the request line and all fields
inline constexpr std::size_t kMostBody = 64 * 1024;  // bytes

// ASCII letters only.
std::string in_lower_case(std::string_view text);

// The path and the query of a request, decoded.
struct Target {
  std::vector<std::string> path{};  // "/api/queues/a%2Fb": "api", "queues", "a/b"; "/": empty
  std::map<std::string, std::string> query{};
};

// Whether a field with this name, in lower case, would be among HttpRequest::other_fields.
bool is_other_field(const std::string& name);

// Only the first ? begins the query: RFC 3986 allows others in it. Throws HttpError.
Target parse_target(std::string_view target);

// The name in the value of Host, in lower case and without port and brackets: "localhost:80", "[::1]". An IPv6 address
// is in its shortest form, so that all its forms are equal. Throws HttpError.
std::string parse_host(std::string_view host);

struct HttpRequest {
  std::string method{};  // GET, HEAD or POST
  Target target{};
  std::string host{}, origin{}, fetch_site{}, content_type{}, action{}, authorization{};  // values of fields, as sent
  std::vector<std::pair<std::string, std::string>> other_fields{};  // all others: names in lower case, and values
  std::string body{};
  std::string client{};  // its address
};

// The head of a request.
struct CheckedHead {
  HttpRequest request{};  // without body and client
  std::size_t body = 0;   // bytes that follow
};

// Parses the bytes up to and with the empty line. Throws HttpError. cpp-httplib must not parse them: it decodes %XX in
// the values of fields, so that a token, Host or Origin would be compared in another form than the client, or a proxy
// that checks it, has sent; it answers a second ? in the target with an empty 400; and it acts on fields such as Range.
CheckedHead check_head(std::string_view bytes);

// The parameters of a query: those that are known, each at most once. The functions throw HttpError or Usage.
class Query {
 public:
  Query(const Target& target, std::initializer_list<const char*> known);

  std::optional<std::string> text(const std::string& name, std::size_t most) const;
  std::uint64_t number(const std::string& name, std::uint64_t least, std::uint64_t most, std::uint64_t otherwise) const;

 private:
  const Target& target_;
};

}  // namespace dqctl
