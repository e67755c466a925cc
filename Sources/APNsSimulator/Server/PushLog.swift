import Glibc
import Numbers
import Reactor

/// The file of a push log. The threads of a service share it, and each writes complete lines.
final class PushLogFile: Sendable {
    let descriptor: Int32

    /// Creates or overwrites the file. Only the file's owner may read it, because the log shows who got which content.
    init(path: String) throws(SimulatorError) {
        let openedDescriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0o600)
        guard openedDescriptor >= 0, Self.restrictAccessToOwner(openedDescriptor) else {
            let reason = String(cString: strerror(errno))
            if openedDescriptor >= 0 { close(openedDescriptor) }
            throw SimulatorError(.invalidConfiguration, "pushLog: \(path): \(reason)")
        }
        descriptor = openedDescriptor
    }

    /// Lets only the file's owner read and write it, even if other users could before. A pipe or device, such as
    /// `/dev/stdout`, keeps its own mode. Returns false and sets `errno` if the mode cannot be changed.
    private static func restrictAccessToOwner(_ file: Int32) -> Bool {
        var status = stat()
        guard fstat(file, &status) == 0 else { return false }
        return status.st_mode & S_IFMT != S_IFREG || fchmod(file, 0o600) == 0
    }

    /// - Parameter descriptor: an open file, which `deinit` closes.
    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }
}

/// Logs every push and broadcast when the service has decided about it: one JSON object on each line.
///
/// - `time`: when the service decided about the push, UNIX milliseconds of the simulated world
/// - `status`, `reason`: the response, even if its connection closes before it is sent. A 200 and a response that is
///   not JSON have no reason. A push without a response has status 0 and one of these reasons: `refused`, `reset`,
///   `unanswered`, or `unprocessed` (a GOAWAY excludes the push, or its connection is about to be cut)
/// - `app`, `activity`, `device`: the owner of the token, if the token is known. For a start, `activity` is the
///   activity that it created. A broadcast has only `app`, from its path
/// - `token`: ``LoggedDigest`` of the token's bytes; none for a broadcast
/// - `channel`: only for a broadcast
/// - `apnsId`: the valid `apns-id` of the request, or the `apns-request-id` of a broadcast, if it had one
/// - `priority`, `expiration`: the headers. An expiration that is missing or no number is -1; a missing priority is 10,
///   an unknown one 0
/// - `event`, `timestamp`: from the payload; null if a phone cannot decode it
/// - `alert`: the alert's title; `""` for an alert without a title or with a localized one, null for no alert
/// - `state`: ``LoggedDigest`` of the content state's bytes, or null
/// - `effect`: the ``PushEffect`` of a push that APNs accepted, even if its response was lost; none for a broadcast
///
/// The lines of one thread are in the order in which the pushes reached their phones. If a result of Causeway
/// says `accepted` and no line of its push has an effect, the push was lost. If two lines of its push have an effect,
/// the push was delivered twice.
final class PushLog: IterationEndHandler {
    /// A buffer that reaches this size is written before the iteration's end, so that its memory stays limited (R4).
    private static let bufferBytesMax = 65_536

    private let file: PushLogFile
    private let loop: EventLoop
    private var buffer: [UInt8] = []
    private var isFlushRequested = false
    /// Whether this thread's last write ended in the middle of a line. The thread's next write completes the line.
    private var hasPartialLine = false
    /// Lines that could not be written, for example because the disk was full. If lines are lost, the log
    /// proves nothing.
    private(set) var lostLineCount = 0

    init(file: PushLogFile, loop: EventLoop) {
        self.file = file
        self.loop = loop
        buffer.reserveCapacity(Self.bufferBytesMax * 2)
    }

    /// Adds the line of a push to the buffer.
    ///
    /// - Parameter tape: scratch memory for the push's body. The caller reuses it for every push.
    func log(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        _ result: LoggedPushResult,
        destination: DeviceModel.PushDestination?,
        tape: inout JSONTape,
        nowMilliseconds: Int64
    ) {
        let (memory, head) = (slot.pointee.memory, slot.pointee.head)
        let body = memory.prefix(
            min(slot.pointee.receivedBodyByteCount, RequestMemory.bodyByteRange.count),
            of: RequestMemory.bodyByteRange
        )
        let payload = try? PushPayload(body, tape: &tape)
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member("time", nowMilliseconds)
            writer.member("status", result.status)
            if !result.reason.isEmpty { writer.member("reason", result.reason) }
            destination?.write(to: &writer)
            if head.path == .broadcast {
                let bundle = memory.prefix(head.bundleIdByteCount, of: RequestMemory.bundleByteRange)
                let channel = memory.prefix(head.channelByteCount, of: RequestMemory.channelByteRange)
                writer.member("app", String(decoding: bundle, as: UTF8.self))
                writer.member("channel", String(decoding: channel, as: UTF8.self))
            } else {
                writer.member(
                    "token",
                    LoggedDigest.hexadecimal(memory.prefix(head.tokenByteCount, of: RequestMemory.tokenByteRange))
                )
            }
            if head.identifierByteCount > 0 {
                let identifier = memory.prefix(head.identifierByteCount, of: RequestMemory.identifierByteRange)
                writer.member("apnsId", String(decoding: identifier, as: UTF8.self))
            }
            writer.member("priority", head.priority)
            writer.member("expiration", head.expirationSeconds)
            Self.write(payload, tape, to: &writer)
            if let effect = result.effect { writer.member("effect", "\(effect)") }
        }
        append(writer.bytes)
    }

    private static func write(
        _ payload: PushPayload?,
        _ tape: borrowing JSONTape,
        to writer: inout SimulatorJSONWriter
    ) {
        let null = Array("null".utf8)
        guard let payload else {
            for name in ["event", "timestamp", "alert", "state"] { writer.member(name, json: null) }
            return
        }
        writer.member("event", "\(payload.event)")
        writer.member("timestamp", payload.timestamp)
        if let alert = payload.alertIndex, tape[alert].kind != .null {
            let title = tape.member("title", of: alert)
            writer.member("alert", title.map { tape[$0].kind == .string ? tape.string($0) : "" } ?? "")
        } else {
            writer.member("alert", json: null)
        }
        if let state = payload.contentStateIndex {
            writer.member("state", LoggedDigest.hexadecimal(tape.bytes(state)))
        } else {
            writer.member("state", json: null)
        }
    }

    /// Adds a line to the buffer, which is written at the end of the thread's iteration, or earlier if it is full.
    func append(_ line: [UInt8]) {
        buffer.append(contentsOf: line)
        buffer.append(UInt8(ascii: "\n"))
        if buffer.count >= Self.bufferBytesMax { return flush() }
        guard !isFlushRequested else { return }
        isFlushRequested = true
        loop.callAtIterationEnd(self)
    }

    func iterationEnded() {
        isFlushRequested = false
        flush()
    }

    /// Writes the buffered lines. If a write fails, drops the lines that are not written. Only the rest of a partly
    /// written line is kept. The next call writes this rest first, so that each line of the file becomes complete.
    func flush() {
        var writtenBytes = 0
        while writtenBytes < buffer.count {
            let count = buffer.withUnsafeBytes {
                Glibc.write(file.descriptor, $0.baseAddress.map { $0 + writtenBytes }, $0.count - writtenBytes)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            writtenBytes += count
            hasPartialLine = buffer[writtenBytes - 1] != UInt8(ascii: "\n")
        }
        let rest = buffer[writtenBytes...]
        let partialLineBytes = hasPartialLine ? rest.prefix { $0 != UInt8(ascii: "\n") }.count + 1 : 0
        lostLineCount += rest.dropFirst(partialLineBytes).count { $0 == UInt8(ascii: "\n") }
        buffer.removeSubrange((writtenBytes + partialLineBytes)...)
        buffer.removeFirst(writtenBytes)
    }
}

/// How a push ended at the service.
struct LoggedPushResult {
    /// The HTTP status of the response; 0: there was no response.
    var status: Int
    /// The reason in the response, or why there was no response. Empty for a response with status 200, and for a
    /// response that is not JSON.
    var reason: String
    /// The effect of an accepted push to a device; nil: the push was not accepted, or is a broadcast.
    var effect: PushEffect?

    init(_ response: SimulatedResponse, effect: PushEffect? = nil) {
        status = response.status
        self.reason = response.text
        self.effect = effect
    }

    init(_ undocumented: UndocumentedResponse) {
        status = undocumented.reason.status
        reason = undocumented.reasonText
    }

    /// Describes a push without a response. The reason says why there was none.
    init(_ reason: String, effect: PushEffect? = nil) {
        status = 0
        self.reason = reason
        self.effect = effect
    }
}

/// FNV-1a with 64 bits as sixteen hexadecimal digits. The push log writes this digest instead of bytes that are long or
/// secret.
///
/// The digest is not a cryptographic hash. But a device token is random and so long that nobody can find it from the
/// digest.
public enum LoggedDigest {
    public static func hexadecimal(_ bytes: UnsafeRawBufferPointer) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return Hexadecimal.text(hash)
    }
}
