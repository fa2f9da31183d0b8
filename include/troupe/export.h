// What the shared library shows of itself: the names of the public headers. All others are hidden
// (-fvisibility=hidden), so that calls between them need no detour and programs cannot depend on
// them.
//
//   namespace TROUPE_EXPORT troupe {   // a public header: everything in this block is shown
//
// A function template that such a block declares, and that a source file instantiates, needs the
// macro in front of its own declaration. TROUPE_HIDDEN hides a class that such a block declares but
// that belongs to the library alone.
//
// Thread rule: macros only; nothing here runs.
#ifndef TROUPE_EXPORT_H_
#define TROUPE_EXPORT_H_

#define TROUPE_EXPORT [[gnu::visibility("default")]]
#define TROUPE_HIDDEN [[gnu::visibility("hidden")]]

#endif  // TROUPE_EXPORT_H_
