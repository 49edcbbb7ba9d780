// The bits of the state of a string, by setting the bit fields.
#define STATE_WITH(field, value)                                                                                       \
    ((union { PyASCIIObject object; unsigned words[16]; }){.object.state.field = value}                                \
         .words[offsetof(PyASCIIObject, state) / 4])
#define STRING_STATE()                                                                                                 \
    FIELD("string_kind_mask", "The bits of `state` that are the bytes of a character, 1, 2 or 4 times its lowest.",      \
          STATE_WITH(kind, 7));                                                                                        \
    FIELD("string_compact", "The bit of `state` of a string with its characters behind the header.",                   \
          STATE_WITH(compact, 1));                                                                                     \
    FIELD("string_ascii", "The bit of `state` of a string of ASCII alone.", STATE_WITH(ascii, 1))
