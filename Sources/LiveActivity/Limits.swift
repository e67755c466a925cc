/// The bounds of records, request bodies and shapes. Records are hostile input: each loop over a record is bounded by
/// one of these numbers. (R4)
public enum Limits {
    /// The maximum length of a record, in bytes. It is far above the maximum length of a body, because a policy may
    /// drop fields from a body that is too large (R33).
    public static let recordBytesMax = 65_536
    /// The maximum nesting of objects and arrays. The record's own object counts. At most 64, because `skipValue` has
    /// one bit for each level.
    public static let nestingDepthMax = 32
    /// The largest offset that is accepted from a broker, a header or a commit's metadata, which may have any number.
    /// No log is so long. The limit is far below `Int64.max`, so that adding small numbers to an offset does not
    /// overflow.
    public static let offsetMax: Int64 = 1 << 62
    /// The maximum length of a JSON string or key between its quotes, in bytes.
    public static let stringBytesMax = 8_192
    /// The maximum length of a name in bytes, after its escapes are decoded: of an app, an activity, an audience, a
    /// device or an attributes type. At most 256, because ``MemberEntryFormat`` has one byte for the length of an id.
    public static let identifierBytesMax = 256
    /// The maximum length of a command's `id`, in bytes after its escapes are decoded.
    public static let commandIdentifierBytesMax = 64
    /// The maximum length of a policy's name, in bytes.
    public static let policyNameBytesMax = 64
    /// The minimum and maximum number of a token's hexadecimal digits. Apple promises no length: update tokens of 64 to
    /// 160 digits have been seen.
    public static let tokenDigitsMin = 8
    public static let tokenDigitsMax = 200
    /// The maximum length of a request's body to one device, in bytes (Apple, "Sending notification requests to APNs").
    public static let bodyBytesMax = 4_096
    /// The maximum length of a request's body to a broadcast channel, in bytes (Apple, "Sending broadcast push
    /// notification requests to APNs").
    public static let broadcastBodyBytesMax = 5_120
    /// The maximum number of broadcast channels of one app in one environment (Apple, "Sending channel management
    /// requests to APNs").
    public static let channelsPerAppMax = 10_000
    /// The maximum number of unknown keys in Apple's dictionary, in its alert, and in a title or body that is an
    /// object. Causeway passes these keys on to APNs. The limit bounds the search for duplicate keys.
    public static let unknownKeysPerObjectMax = 32
    /// The size of the buffer into which a key with escapes is decoded, in bytes. Every key that Causeway knows is
    /// shorter.
    static let unescapedKeyBufferBytes = 32
    /// The maximum number of audiences that one registration names. A worker writes the member into each of them (R27).
    public static let audiencesPerRegistrationMax = 8
    /// The range of `aps.timestamp` and `expiration`, UNIX seconds: 2001-09-09 to 2286-11-20. All its numbers have ten
    /// digits, so that a timestamp can be replaced in place. A number with more or fewer digits is refused: it probably
    /// counts milliseconds, or seconds since 2001.
    public static let timestampMin: Int64 = 1_000_000_000
    public static let timestampMax: Int64 = 9_999_999_999
    /// How many seconds `aps.timestamp` may be ahead of the worker's clock. A version that is further ahead would
    /// supersede all correct updates of the activity until the clock reaches its time.
    public static let timestampLeadSecondsMax: Int64 = 300
    /// The maximum number of nodes (roots, fields and elements) in all shapes of one app. All enums together may also
    /// have this many raw values.
    public static let shapeNodesPerAppMax = 4_096
    /// The maximum number of fields of one object in a shape: ``FieldSet`` has one bit for each.
    public static let shapeFieldsPerObjectMax = 128
    /// The maximum nesting of types in a shape. It limits the recursion of ``ContractChecker``.
    public static let shapeDepthMax = 16
    /// The maximum number of `ActivityAttributes` types of one app. A type whose shapes differ between releases of the
    /// app counts once for each of these releases.
    public static let shapeTypesPerAppMax = 64
}
