extension Registration {
    /// Decodes a record of the registrations topic. A tombstone has no value, so it is not decoded.
    ///
    /// - Throws: the first ``Fault`` found, with its position.
    public static func decode(_ record: UnsafeRawBufferPointer) throws(Fault) -> Registration {
        let text = try JSONText(record)
        let start = try text.findRecordStart()
        var members = try JSONMembers(text, at: start, of: .record, unknownKeys: .refused)
        var fields = RegistrationFields()
        while let field = try members.next(in: text, Field.registrationField) {
            members.position = try fields.decode(field, text, members.position)
        }
        try text.requireRecordEnd(members.position)
        return try fields.makeRegistration(start, members)
    }
}

/// The fields of a registration while its record is read. Some belong only to activities, others only to devices.
private struct RegistrationFields {
    var app = TextRange.absent
    var environment = APNsEnvironment.production
    var registeredAtMilliseconds: Int64 = -1
    var device = TextRange.absent
    var attributesType = TextRange.absent
    var token = TextRange.absent
    var activity = TextRange.absent
    var allowsFrequentUpdates = false
    var supportsChannels = false
    var shownVersion: Version?
    var audiences = ByteRange.absent
    var audienceCount = 0

    /// The bounds of `registeredAtMilliseconds`: the years 2001 to 2286, as for a timestamp (``Limits/timestampMin``).
    static let registeredAtMillisecondsMin = Limits.timestampMin * 1_000
    static let registeredAtMillisecondsMax = Limits.timestampMax * 1_000 + 999

    @inline(__always)
    mutating func decode(_ field: Field, _ text: JSONText, _ position: Int) throws(Fault) -> Int {
        switch field {
        case .app, .activity, .device, .attributesType:
            return try decodeIdentifyingField(field, text, position)
        case .token:
            let digits = try text.readToken(position, field)
            token = digits.textRange
            return digits.nextPosition
        case .environment:
            let (value, next) = try text.readEnvironment(position, field)
            environment = value
            return next
        case .registeredAt:
            let (value, next) = try text.readInteger(
                position,
                from: Self.registeredAtMillisecondsMin,
                to: Self.registeredAtMillisecondsMax,
                field
            )
            registeredAtMilliseconds = value
            return next
        case .frequentUpdates:
            let (value, next) = try text.readBoolean(position, field)
            allowsFrequentUpdates = value
            return next
        case .channels:
            let (value, next) = try text.readBoolean(position, field)
            supportsChannels = value
            return next
        case .shows:
            let (value, next) = try Self.readShownVersion(text, position)
            shownVersion = value
            return next
        case .audiences:
            return try decodeAudiences(text, position)
        default:
            preconditionFailure("Field.registrationField gave a field that is not read here")
        }
    }

    @inline(__always)
    private mutating func decodeIdentifyingField(_ field: Field, _ text: JSONText, _ position: Int) throws(Fault) -> Int
    {
        let name = try text.readName(position, atMost: Limits.identifierBytesMax, field)
        switch field {
        case .app: app = name.textRange
        case .activity: activity = name.textRange
        case .device: device = name.textRange
        default: attributesType = name.textRange
        }
        return name.nextPosition
    }

    /// Reads the array `audiences`. Its names are checked here, and read again when their digests are needed.
    private mutating func decodeAudiences(_ text: JSONText, _ start: Int) throws(Fault) -> Int {
        let (next, elementCount) = try text.readArray(start, .audiences) { position throws(Fault) in
            try text.readName(position, atMost: Limits.identifierBytesMax, .audiences).nextPosition
        }
        guard elementCount <= Limits.audiencesPerRegistrationMax else {
            throw Fault(.tooMany, .audiences, at: start, valueAboveLimit: elementCount)
        }
        audiences = ByteRange(from: start, to: next)
        audienceCount = elementCount
        return next
    }

    /// Reads the version that the app already displays: a timestamp, or an object with a timestamp and a sequence.
    private static func readShownVersion(_ text: JSONText, _ start: Int) throws(Fault) -> (Version, next: Int) {
        var version = Version.zero
        guard start < text.count, text.byte(start) == UInt8(ascii: "{") else {
            let (value, next) = try text.readInteger(start, from: Limits.timestampMin, to: Limits.timestampMax, .shows)
            version.timestamp = value
            return (version, next)
        }
        var members = try JSONMembers(text, at: start, of: .shows, unknownKeys: .refused)
        while let field = try members.next(in: text, Field.shownVersionField) {
            if field == .showsTimestamp {
                let (value, next) = try text.readInteger(
                    members.position,
                    from: Limits.timestampMin,
                    to: Limits.timestampMax,
                    field
                )
                version.timestamp = value
                members.position = next
            } else {
                let (value, next) = try text.readUnsignedInteger(members.position, field)
                version.sequence = value
                members.position = next
            }
        }
        guard members.has(.showsTimestamp) else { throw Fault(.missingField, .showsTimestamp, at: start) }
        return (version, members.position)
    }

    /// Makes a registration from the fields: of a device if the record has `device`, otherwise of an activity. Throws
    /// if a field is missing that this kind of registration requires, or if there is a field that this kind must not
    /// have.
    func makeRegistration(_ start: Int, _ members: JSONMembers) throws(Fault) -> Registration {
        guard members.has(.app) else { throw Fault(.missingField, .app, at: start) }
        guard members.has(.environment) else { throw Fault(.missingField, .environment, at: start) }
        guard members.has(.registeredAt) else { throw Fault(.missingField, .registeredAt, at: start) }
        guard members.has(.token) else { throw Fault(.missingField, .token, at: start) }
        let kind: Registration.Kind
        if members.has(.device) {
            guard members.has(.attributesType) else { throw Fault(.missingField, .attributesType, at: start) }
            guard !members.has(.activity) else { throw Fault(.notAllowed, .activity, at: start) }
            guard !members.has(.frequentUpdates) else { throw Fault(.notAllowed, .frequentUpdates, at: start) }
            guard !members.has(.shows) else { throw Fault(.notAllowed, .shows, at: start) }
            kind = .pushToStart(
                .init(
                    device: device,
                    attributesType: attributesType,
                    token: token,
                    audiences: audiences,
                    audienceCount: audienceCount,
                    supportsChannels: supportsChannels
                )
            )
        } else {
            guard members.has(.activity) else { throw Fault(.missingField, .activity, at: start) }
            guard !members.has(.channels) else { throw Fault(.notAllowed, .channels, at: start) }
            guard !members.has(.attributesType) else { throw Fault(.notAllowed, .attributesType, at: start) }
            kind = .activity(
                .init(
                    activity: activity,
                    token: token,
                    allowsFrequentUpdates: allowsFrequentUpdates,
                    shownVersion: shownVersion,
                    audiences: audiences,
                    audienceCount: audienceCount
                )
            )
        }
        return Registration(
            app: app,
            environment: environment,
            registeredAtMilliseconds: registeredAtMilliseconds,
            kind: kind
        )
    }
}
