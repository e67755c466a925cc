import APNsSimulator
import CausewayCommandLine
import Glibc
import LiveActivity

/// A file with the commands that a producer has sent, so that a checker can compare results and pushes with them.
///
/// Each line is JSON with `command` (the id), `activity`, `time` (UNIX milliseconds), `event`, `alert` (the title, or
/// null) and `state` (the digest of the content state, as in the simulator's push log).
final class CommandJournal {
    /// The part of a line that is the same for all followers of a match (the phones that show the match).
    struct LineTemplate {
        fileprivate var identifierPrefix: String
        /// The end of the line, from the key `event` on.
        fileprivate var lineSuffix: [UInt8]

        init(_ step: MatchStep, event: String, sequence: Int) {
            identifierPrefix = "\(sequence)/"
            let object = JSONWriter.object { json in
                json.member("event", event)
                if let alert = step.alert {
                    json.member("alert", alert.title)
                } else {
                    json.member("alert", verbatim: Array("null".utf8))
                }
                json.member("state", step.state.json.withUnsafeBytes { LoggedDigest.hexadecimal($0) })
            }
            lineSuffix = Array(object.dropFirst())
        }
    }

    private static let bufferBytesMax = 1 << 16

    private let path: String
    private let descriptor: Int32
    private var buffer: [UInt8] = []

    init(path: String) throws(LabError) {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw LabError(path, errno: errno) }
    }

    deinit {
        close(descriptor)
    }

    /// Adds the line of a command that was just given to the producer. The line reaches the file when the buffer is
    /// full, or with `flush`. The ids must contain no character that JSON escapes.
    func append(_ template: LineTemplate, activity: String) throws(LabError) {
        buffer.append(
            contentsOf: #"{"command":"\#(template.identifierPrefix)\#(activity)","activity":"\#(activity)","time":"#
                .utf8
        )
        buffer.append(contentsOf: "\(Clock.wallMilliseconds),".utf8)
        buffer.append(contentsOf: template.lineSuffix)
        buffer.append(UInt8(ascii: "\n"))
        if buffer.count >= Self.bufferBytesMax { try flush() }
    }

    func flush() throws(LabError) {
        var rest = buffer[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno != EINTR { throw LabError(path, errno: errno) }
            rest = rest.dropFirst(max(0, count))
        }
        buffer.removeAll(keepingCapacity: true)
    }
}
