import Delivery
import LiveActivity

/// The parts of a result that a test sees, copied when the core produced the result.
struct SeenResult {
    var command: String
    var outcome: String
    var activity: String
    var audience: String
    var device: String
    var supersededCount: Int
    var status: UInt16?
    var reason: String
    var isLifetimeCommand: Bool
    var attempts: UInt8
    var priority: UInt8
    var isDemoted: Bool
    var budgetLeft: Int?
    var droppedFields: String
    var policy: String
    var sentTimestamp: Int64
    var topic: RecordTopic
    var offset: Int64
    var trace: String
    /// The times of the command's Kafka record, its receipt, its admission, its last push and the response, in UNIX
    /// milliseconds; -1 for a time that is not known.
    var timesMilliseconds: [Int64]
    var admittedAtMilliseconds: Int64 { timesMilliseconds[2] }
    var sentAtMilliseconds: Int64 { timesMilliseconds[3] }
    var responseAtMilliseconds: Int64 { timesMilliseconds[4] }

    init(_ view: RecordView) {
        command = text(view.commandIdentifier)
        outcome = "\(view.outcome.name)"
        activity = text(view.activity)
        audience = text(view.audience)
        device = text(view.device)
        supersededCount = view.supersededCount
        status = view.httpStatus
        reason = text(view.reason)
        isLifetimeCommand = view.isLifetimeCommand
        attempts = view.attemptCount
        priority = view.priority
        isDemoted = view.isDemoted
        budgetLeft = view.budgetLeft
        droppedFields = text(view.droppedFields)
        policy = text(view.policyName)
        sentTimestamp = view.sentTimestamp
        topic = view.sourceTopic
        offset = view.sourceOffset
        trace = text(view.trace)
        timesMilliseconds = [
            view.recordTimestampMilliseconds, view.receivedAtWallMilliseconds, view.admittedAtWallMilliseconds ?? -1,
            view.sentAtWallMilliseconds ?? -1,
            view.responseAtWallMilliseconds ?? -1,
        ]
    }
}

/// A command that the core produces to the deferred topic.
struct SeenDeferral {
    var command: String
    var cause: String
    var deferral: Deferral
    /// The header with the names of dropped fields.
    var droppedFields: String
    /// The value of the deferred record, as a lane would write it.
    var value: String
    var trace: String

    init(_ view: RecordView) {
        command = view.name
        cause = "\(view.deferralCause.name)"
        deferral = view.deferral
        droppedFields = text(view.droppedFields)
        trace = text(view.trace)
        var writer = JSONWriter()
        Array(CommandText.app.utf8).withUnsafeBytes { view.deferredCommand(app: $0).write(to: &writer) }
        value = text(writer.bytes)
    }
}

/// A dead letter, copied when the core produced it.
struct SeenDeadLetter: Equatable {
    var key: String?
    var value: String?
    var error: String
    var detail: String
    var source: String
    var trace = ""

    init(key: String?, value: String?, error: String, detail: String, source: String) {
        self.key = key
        self.value = value
        self.error = error
        self.detail = detail
        self.source = source
    }

    init(_ view: RecordView, source: String) {
        key = view.deadLetterKey.map(text)
        value = view.deadLetterValue.map(text)
        error = text(view.reason)
        detail = text(view.deadLetterDetail)
        self.source = source
        trace = text(view.trace)
    }
}

/// An invalidation, copied when the core produced it.
struct SeenInvalidation: Equatable {
    var activity: String
    var device: String
    var token: String
    var environment: APNsEnvironment
    var reason: String
    var invalidAtMilliseconds: Int64

    init(
        activity: String,
        device: String,
        token: String,
        environment: APNsEnvironment,
        reason: String,
        invalidAtMilliseconds: Int64
    ) {
        self.activity = activity
        self.device = device
        self.token = token
        self.environment = environment
        self.reason = reason
        self.invalidAtMilliseconds = invalidAtMilliseconds
    }

    init(_ view: RecordView) {
        activity = text(view.activity)
        device = text(view.device)
        token = text(view.token)
        environment = view.environment
        reason = text(view.reason)
        invalidAtMilliseconds = view.invalidAtWallMilliseconds
    }
}

/// A push, copied when the core offered it.
struct SeenPush {
    var record: RecordIndex
    var command: String
    var body: String
    var token: String
    var priority: UInt8
    var sentExpirationSeconds: Int64
    var attempts: UInt8
    var apnsId: [UInt64]
    var avoidedConnectionNumber: UInt32?

    init(_ view: RecordView, record: RecordIndex) {
        self.record = record
        command = text(view.commandIdentifier)
        body = text(view.body)
        token = text(view.token)
        priority = view.priority
        sentExpirationSeconds = view.sentExpirationSeconds
        attempts = view.attemptCount
        apnsId = [view.apnsId.0, view.apnsId.1]
        avoidedConnectionNumber = view.avoidedConnectionNumber
    }
}

extension RecordView {
    /// The name that the tests use for the record: the command's id, or the registered activity or device.
    var name: String {
        if !commandIdentifier.isEmpty { return text(commandIdentifier) }
        return activity.isEmpty ? "device \(text(device))" : text(activity)
    }
}

private func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

extension StoreCall {
    /// Whether the call only reports something to Redis, so that its verdict is always `settled`. A test replies to it
    /// with `acknowledgeSettlement`, to all other calls with `reply`.
    var isSettlement: Bool {
        switch operation {
        case .settle, .settleStart, .throttle, .refundStart, .retire, .confirmDepartures, .reportLifetimeEvent,
            .recordStart:
            true
        case .takeStartToken, .admit, .admitStart, .hold, .holdStart, .register, .registerDevice, .reopen, .unregister,
            .checkLifetime:
            false
        }
    }
}
