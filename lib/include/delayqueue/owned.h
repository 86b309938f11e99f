// What is behind a public object. Not for users.
#pragma once

#include <memory>
#include <utility>

namespace delayqueue::internal {

long this_process();

// Throws std::logic_error that names the class: there is nothing behind the object (it was moved from), or it was made
// by another process, of which this one is a fork.
void check_owned(const void* impl, long owner, const char* name);

// Never destroys it.
void keep(std::shared_ptr<void> impl);

// Threads of a process do not exist in its forks, locks may be held there for ever, and a connection serves one process
// only. So every call in a fork throws, and the destructor there leaves all as it is.
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

}  // namespace delayqueue::internal
