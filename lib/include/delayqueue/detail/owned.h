// Owner of the implementation behind a public object. Internal.
#pragma once

#include <delayqueue/version.h>

#include <memory>
#include <utility>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace internal {

long this_process();

// Throws std::logic_error with the name of the class if the object was moved from (impl is null), or if another process
// created it, of which this one is a fork.
void check_owned(const void* impl, long owner, const char* name);

// Leaks the implementation on purpose: in a fork its destructor must not run.
void keep(std::shared_ptr<void> impl);

// A unique_ptr that cannot be used in a fork. The threads of the parent do not exist there, its locks may stay locked,
// and two processes must not share a connection. In a fork every call throws, and the destructor destroys nothing.
template <class Impl>
class Owned {
 public:
  Owned(const char* name, std::unique_ptr<Impl> impl) : name_(name), owner_(this_process()), impl_(std::move(impl)) {}
  Owned(Owned&&) noexcept = default;
  Owned& operator=(Owned&& other) noexcept {
    Owned old(std::move(*this));
    name_ = other.name_;
    owner_ = other.owner_;
    impl_ = std::move(other.impl_);
    return *this;
  }
  ~Owned() {
    if (impl_ != nullptr && owner_ != this_process()) keep(std::move(impl_));
  }

  Impl* operator->() const {
    check_owned(impl_.get(), owner_, name_);
    return impl_.get();
  }

  const Impl* get() const { return impl_.get(); }
  std::unique_ptr<Impl> release() { return std::move(impl_); }

 private:
  const char* name_;
  long owner_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
