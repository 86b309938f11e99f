#include <delayqueue/server.h>

#include "embedded/folder_server.h"

#include <signal.h>

#include <utility>

namespace delayqueue {

class PrivateServer::Impl : public FolderServer {
 public:
  using FolderServer::FolderServer;
};

namespace {

template <class Impl>
Impl* checked(const std::unique_ptr<Impl>& impl) {
  if (impl == nullptr) throw std::logic_error("PrivateServer: used after it was moved from");
  return impl.get();
}

}  // namespace

PrivateServer::PrivateServer(PrivateServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
PrivateServer::~PrivateServer() = default;
PrivateServer::PrivateServer(PrivateServer&&) noexcept = default;
PrivateServer& PrivateServer::operator=(PrivateServer&&) noexcept = default;

std::string PrivateServer::url() const { return checked(impl_)->url(); }
std::string PrivateServer::socket() const { return checked(impl_)->socket(); }
std::string PrivateServer::folder() const { return checked(impl_)->folder(); }
int PrivateServer::pid() const { return checked(impl_)->pid(); }

void PrivateServer::stop() { checked(impl_)->stop(); }
void PrivateServer::kill() { checked(impl_)->end(SIGKILL); }

void PrivateServer::restart() {
  checked(impl_)->end(SIGKILL);
  checked(impl_)->start();
}

}  // namespace delayqueue
