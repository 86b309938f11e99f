// Marks the symbols that the shared library exports; all others are hidden.
#pragma once

#if defined(__GNUC__)
#define DELAYQUEUE_EXPORT __attribute__((visibility("default")))
#define DELAYQUEUE_HIDDEN __attribute__((visibility("hidden")))
#else
#define DELAYQUEUE_EXPORT
#define DELAYQUEUE_HIDDEN
#endif
