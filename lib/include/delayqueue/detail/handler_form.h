// Which of the two forms of a handler a function has. Internal.
#pragma once

#include <delayqueue/version.h>

#include <delayqueue/message.h>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

class Delivery;

namespace internal {

// The parameter of a function with one signature; void for templates, overloads, and what is no function. Reading it
// instantiates no body.
template <class Function, class = void>
struct ParameterOf {
  using Type = void;
};
template <class Result, class Parameter>
struct ParameterOf<Result (*)(Parameter)> {
  using Type = Parameter;
};
template <class Result, class Parameter>
struct ParameterOf<Result (*)(Parameter) noexcept> {
  using Type = Parameter;
};

template <class Result, class Class, class Parameter>
Parameter parameter_of(Result (Class::*)(Parameter));
template <class Result, class Class, class Parameter>
Parameter parameter_of(Result (Class::*)(Parameter) const);
template <class Result, class Class, class Parameter>
Parameter parameter_of(Result (Class::*)(Parameter) &);
template <class Result, class Class, class Parameter>
Parameter parameter_of(Result (Class::*)(Parameter) const&);
template <class Function>
struct ParameterOf<Function, std::void_t<decltype(parameter_of(&Function::operator()))>> {
  using Type = decltype(parameter_of(&Function::operator()));
};

enum class HandlerForm { of_message, of_delivery, no_verdict, borrows_delivery, loses_result, none };

template <class Function, class Parameter>
constexpr HandlerForm form_of_delivery() {
  using Referred = std::remove_reference_t<Parameter>;
  if constexpr (std::is_lvalue_reference_v<Parameter> || std::is_const_v<Referred>) {
    return HandlerForm::borrows_delivery;
  } else if constexpr (!std::is_void_v<std::invoke_result_t<Function&, Delivery>>) {
    return HandlerForm::loses_result;
  } else {
    return HandlerForm::of_delivery;
  }
}

// A function whose parameter is `auto` is one of a Message: its body must not be instantiated for a Delivery.
template <class Function>
constexpr HandlerForm handler_form() {
  using Parameter = typename ParameterOf<Function>::Type;
  if constexpr (std::is_same_v<std::decay_t<Parameter>, Delivery>) {
    return form_of_delivery<Function, Parameter>();
  } else if constexpr (std::is_invocable_v<Function&, const Message&>) {
    constexpr bool kVerdict = std::is_convertible_v<std::invoke_result_t<Function&, const Message&>, Verdict>;
    return kVerdict ? HandlerForm::of_message : HandlerForm::no_verdict;
  } else if constexpr (std::is_void_v<Parameter> && std::is_invocable_v<Function&, Delivery>) {
    constexpr bool kBorrows = std::is_invocable_v<Function&, const Delivery&>;
    return kBorrows ? HandlerForm::borrows_delivery : form_of_delivery<Function, Delivery>();
  } else {
    return HandlerForm::none;
  }
}

// Whether a value of this type may hold no function: a pointer, a std::function.
template <class Function, class = void>
inline constexpr bool kMayBeEmpty = false;
template <class Function>
inline constexpr bool
    kMayBeEmpty<Function, std::void_t<std::enable_if_t<std::is_constructible_v<Function, std::nullptr_t>>,
                                      decltype(std::declval<const Function&>() == nullptr)>> = true;

// One error with one sentence for each function that can be no handler.
template <class Function, HandlerForm kForm>
constexpr void check_form() {
  static_assert(kForm != HandlerForm::no_verdict, "handler: it must return a Verdict, such as delayqueue::ack()");
  static_assert(kForm != HandlerForm::borrows_delivery,
                "handler: it must take the Delivery by value, because it owns it until it is settled");
  static_assert(kForm != HandlerForm::loses_result,
                "handler: with a Delivery it must return nothing, because a result would be lost; settle the Delivery, "
                "as by std::move(delivery).ack()");
  static_assert(kForm != HandlerForm::none,
                "handler: it must be a function of the form Verdict(const delayqueue::Message&), or of the form "
                "void(delayqueue::Delivery)");
}

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
