import Foundation
import LiveActivity

/// Files in one directory with which another program can check a run. Each line is a JSON object.
struct EvidenceFiles {
    let directory: String

    /// The commands that the producer sent.
    var commandsPath: String { "\(directory)/commands.jsonl" }
    /// The records of the results topic.
    var resultsPath: String { "\(directory)/results.jsonl" }
    /// The pushes that arrived at APNs.
    var pushesPath: String { "\(directory)/pushes.jsonl" }
    /// The spacing and the budget of the worker's policy, as `writePolicy` writes them.
    var policyPath: String { "\(directory)/policy.json" }

    /// Creates the directory if needed. Removes the files of an earlier run, because results are appended to their
    /// file.
    init(directory: String) throws(LabError) {
        self.directory = directory
        guard mkdir(directory, 0o700) == 0 || errno == EEXIST else { throw LabError(directory, errno: errno) }
        for file in [commandsPath, resultsPath, pushesPath, policyPath] {
            guard unlink(file) == 0 || errno == ENOENT else { throw LabError(file, errno: errno) }
        }
    }

    func makeJournal() throws(LabError) -> CommandJournal { try CommandJournal(path: commandsPath) }

    /// Writes the policy's spacing and its budget for frequent updates, because the phones of a demo allow frequent
    /// updates.
    func writePolicy(_ policy: Policy) throws(LabError) {
        let budget = policy.frequentBudget
        let object = JSONWriter.object { json in
            json.member("spacingMilliseconds", Int(policy.spacingMilliseconds))
            json.member("budget") { json in
                json.member("pushes", budget.pushes)
                json.member("refillPerHour", budget.refillPerHour)
                json.member("reservedForAlerts", budget.reservedForAlerts)
            }
        }
        try TextFile.write(String(decoding: object, as: UTF8.self) + "\n", to: policyPath)
    }
}

/// Counts the lines of a file that grows. Each call reads only what was added since the previous call.
struct LineCounter {
    private static let chunkBytes = 1 << 20

    let path: String
    private var offset: off_t = 0
    private var lineCount = 0

    init(path: String) {
        self.path = path
    }

    /// Returns the number of complete lines so far.
    mutating func countLines() throws(LabError) -> Int {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw LabError(path, errno: errno) }
        defer { close(descriptor) }
        var chunk = [UInt8](repeating: 0, count: Self.chunkBytes)
        while true {
            let count = pread(descriptor, &chunk, chunk.count, offset)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw LabError(path, errno: errno) }
            if count == 0 { return lineCount }
            offset += off_t(count)
            lineCount += chunk[..<count].count { $0 == UInt8(ascii: "\n") }
        }
    }
}
