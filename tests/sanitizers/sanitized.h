// Which sanitizer the tests are compiled with. GCC and clang say it in different ways.
#ifndef TROUPE_TESTS_SANITIZERS_SANITIZED_H_
#define TROUPE_TESTS_SANITIZERS_SANITIZED_H_

#if defined(__has_feature)
#define TROUPE_TEST_HAS_FEATURE(name) __has_feature(name)
#else
#define TROUPE_TEST_HAS_FEATURE(name) 0
#endif

// Its allocator takes the place of malloc and operator new, and Troupe's own keeps no free blocks.
#if defined(__SANITIZE_ADDRESS__) || TROUPE_TEST_HAS_FEATURE(address_sanitizer)
#define TROUPE_TEST_ASAN 1
#else
#define TROUPE_TEST_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || TROUPE_TEST_HAS_FEATURE(thread_sanitizer)
#define TROUPE_TEST_TSAN 1
#else
#define TROUPE_TEST_TSAN 0
#endif

#endif  // TROUPE_TESTS_SANITIZERS_SANITIZED_H_
