#include <delayqueue/error.h>

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>
#include <typeinfo>

namespace delayqueue {
namespace {

std::string type_text() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an unknown type";  // of another language
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? name.get() : type->name();
}

std::string with_type(const std::string& value, const char* type) {
  return value + " (" + type + ", no std::exception)";
}

}  // namespace

std::string DELAYQUEUE_ABI::current_exception_text() {
  if (std::current_exception() == nullptr) return "no exception";
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (const std::string& text) {
    return with_type(text, "a std::string");
  } catch (std::string_view text) {
    return with_type(std::string(text), "a std::string_view");
  } catch (const char* text) {
    return with_type(text == nullptr ? "null" : text, "a const char*");
  } catch (int number) {
    return with_type(std::to_string(number), "an int");
  } catch (...) {
    return "an exception of type " + type_text() + ", no std::exception";
  }
}

}  // namespace delayqueue
