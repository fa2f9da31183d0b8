// What the shared library shows of itself: the names of the public headers. All others are hidden
// (-fvisibility=hidden), so that calls between them need no detour and programs cannot depend on
// them.
//
//   namespace TROUPE_EXPORT troupe {   // a public header: everything in this block is shown
//
// A class or a variable of another place is shown by the macro before its name. TROUPE_HIDDEN hides
// a class that is declared in such a block but belongs to the library alone.
#ifndef TROUPE_EXPORT_H_
#define TROUPE_EXPORT_H_

#define TROUPE_EXPORT [[gnu::visibility("default")]]
#define TROUPE_HIDDEN [[gnu::visibility("hidden")]]

#endif  // TROUPE_EXPORT_H_
