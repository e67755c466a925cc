import Foundation
import LiveActivity

/// Files with lines of JSON in one directory, with which another program can check a run from outside.
struct Evidence {
    let directory: String

    /// What the producer sent.
    var commands: String { "\(directory)/commands.jsonl" }
    /// The results topic.
    var results: String { "\(directory)/results.jsonl" }
    /// What arrived at APNs.
    var pushes: String { "\(directory)/pushes.jsonl" }
    /// The numbers of the worker's policy.
    var policy: String { "\(directory)/policy.json" }

    /// The directory is created if it does not exist. Files of an earlier run are removed.
    init(directory: String) throws(LabError) {
        self.directory = directory
        guard mkdir(directory, 0o700) == 0 || errno == EEXIST else { throw LabError(directory, errno: errno) }
        for file in [commands, results, pushes, policy] {
            guard unlink(file) == 0 || errno == ENOENT else { throw LabError(file, errno: errno) }
        }
    }

    func journal() throws(LabError) -> CommandJournal { try CommandJournal(path: commands) }

    /// The phones of a demo allow frequent updates, so the frequent budget applies.
    func write(_ numbers: Policy) throws(LabError) {
        let budget = numbers.frequentBudget
        let object = JSONWriter.object { json in
            json.member("spacingMilliseconds", Int(numbers.spacingMilliseconds))
            json.member("budget") { json in
                json.member("pushes", budget.pushes)
                json.member("refillPerHour", budget.refillPerHour)
                json.member("reservedForAlerts", budget.reservedForAlerts)
            }
        }
        try TextFile.write(String(decoding: object, as: UTF8.self) + "\n", to: policy)
    }
}

/// Counts the lines of a growing file.
struct LineCount {
    private static let chunkBytes = 1 << 20

    let path: String
    private var offset: off_t = 0
    private var lines = 0

    init(path: String) {
        self.path = path
    }

    /// Complete lines up to now.
    mutating func count() throws(LabError) -> Int {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw LabError(path, errno: errno) }
        defer { close(descriptor) }
        var chunk = [UInt8](repeating: 0, count: Self.chunkBytes)
        while true {
            let count = pread(descriptor, &chunk, chunk.count, offset)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw LabError(path, errno: errno) }
            if count == 0 { return lines }
            offset += off_t(count)
            lines += chunk[..<count].count { $0 == UInt8(ascii: "\n") }
        }
    }
}
