#include "redis/topology.h"

#include <algorithm>

namespace delayqueue::redis {
namespace {

class SingleServer : public Topology {
 public:
  SingleServer(const Url& url, const ClientOptions& options)
      : address_(url.addresses.front()), login_(login_of(url, options)), options_(options) {}

  std::unique_ptr<Connection> connect(int /*slot*/) override { return dial(address_); }
  std::vector<Address> servers() override { return {address_}; }
  std::unique_ptr<Connection> dial(const Address& server) override {
    return std::make_unique<Connection>(server, login_, options_);
  }

 private:
  const Address address_;
  const Login login_;
  const ClientOptions options_;
};

}  // namespace

Login login_of(const Url& url, const ClientOptions& options) {
  Login login;
  login.user = options.user.empty() ? url.user : options.user;
  login.password = options.password.empty() ? url.password : options.password;
  login.client_name = options.client_name.empty() ? "delayqueue" : options.client_name;
  login.db = url.db;
  login.credentials = options.credentials;
  return login;
}

int port_of(Reply port, const Connection& node) {
  const long long number = port.integer();
  if (number >= 1 && number <= 65535) return static_cast<int>(number);
  throw ReplyError(node.where() + " reports a server with port " + std::to_string(number) + "; expected 1 to 65535");
}

ClientOptions with_probe_timeout(ClientOptions options) {
  options.connect_timeout = std::max(options.connect_timeout / 4, milliseconds(1));
  return options;
}

std::unique_ptr<Topology> single_server(const Url& url, const ClientOptions& options) {
  return std::make_unique<SingleServer>(url, options);
}

}  // namespace delayqueue::redis
