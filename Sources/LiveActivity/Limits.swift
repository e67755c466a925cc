/// What a record may come to. Records are hostile input: each loop over one is bounded by a number on this page.
public enum Limits {
    /// Bytes of a record.
    public static let recordBytes = 65_536
    /// Objects and arrays inside each other, the record's own object included.
    public static let nestingDepth = 32
    /// Bytes of one JSON string as it stands between its quotes, keys included.
    public static let stringBytes = 8_192
    /// Bytes, after unescaping, of whatever names something: an app, an activity, an audience, a device, an attributes type.
    public static let identifierBytes = 256
    /// Bytes, after unescaping, of a command's `id`.
    public static let commandIdentifierBytes = 64
    /// Bytes of a policy's name.
    public static let policyNameBytes = 64
    /// Hexadecimal digits of a token. Apple promises no length: update tokens of 64 to 160 digits have been seen.
    public static let tokenDigitsLeast = 8
    public static let tokenDigitsMost = 200
    /// Bytes of a request's body to one device (Apple, "Sending notification requests to APNs").
    public static let bodyBytes = 4_096
    /// Bytes of a request's body to a broadcast channel (Apple, "Sending broadcast push notification requests to APNs").
    public static let broadcastBodyBytes = 5_120
    /// Keys of one of Apple's dictionaries that are not known here and are passed on; the bound keeps the look for
    /// duplicates among them cheap.
    public static let passedKeys = 32
    /// Bytes of the longest key that is known, and some more.
    static let knownKeyBytes = 32
    /// Audiences that one registration names.
    public static let audiences = 8
    /// The least and the greatest `aps.timestamp`, in UNIX seconds: the numbers of ten digits, so that a timestamp is
    /// replaced in place. They span 2001-09-09 to 2286-11-20.
    public static let timestampLeast: Int64 = 1_000_000_000
    public static let timestampMost: Int64 = 9_999_999_999
    /// Seconds that `aps.timestamp` may be ahead of the reader's clock. A version that is further ahead would shut its activity to every
    /// correct command after it.
    public static let timestampLeadSeconds: Int64 = 300
}
