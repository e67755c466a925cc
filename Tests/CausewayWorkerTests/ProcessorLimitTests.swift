import Foundation
import Testbed
import Testing

@testable import CausewayWorker

@Suite("The number of processors that a process may use")
struct ProcessorLimitTests {
    /// Files in a temporary directory that imitate Linux's hierarchy of control groups.
    private final class ControlGroupFiles {
        private let directory: TemporaryDirectory
        var url: URL { directory.url }

        init(member: String, quotas: [String: String]) throws {
            directory = try TemporaryDirectory()
            for (group, quota) in quotas {
                let directory = url.appendingPathComponent("root\(group)")
                try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
                try "\(quota)\n"
                    .write(to: directory.appendingPathComponent("cpu.max"), atomically: true, encoding: .utf8)
            }
            try member.write(to: url.appendingPathComponent("self"), atomically: true, encoding: .utf8)
        }

        var limit: ProcessorLimit {
            ProcessorLimit(
                controlGroups: ControlGroups(
                    version2Root: url.appendingPathComponent("root").path,
                    version1MemoryRoot: "/nowhere",
                    processGroupsFile: url.appendingPathComponent("self").path
                ),
                statusFile: "/nowhere"
            )
        }
    }

    /// The number of the machine's processors. The tests may be restricted to some of them.
    private static let machineProcessorCount = Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))

    /// Each case: the text of `cpu.max`, which is a quota and a period in microseconds, and the number of processors
    /// that it allows. A text without a valid quota allows all.
    @Test(
        arguments: [
            ("50000 100000", 1), ("100000 100000", 1), ("100001 100000", 2), ("99900000 100000", .max),
            ("max 100000", .max), ("1 1000000", 1), ("", .max), ("x y", .max), ("0 0", .max), ("-5 100000", .max),
            ("9223372036854775807 1", .max), ("99999999999999999999 1", .max), ("100000", .max),
        ] as [(String, Int)]
    )
    func `The quota is rounded up, and never exceeds the processors`(text: String, processorCount: Int) throws {
        let groups = try ControlGroupFiles(member: "0::/\n", quotas: ["": text])
        #expect(groups.limit.processorCount == min(processorCount, Self.machineProcessorCount))
    }

    @Test func `The smallest quota among a control group and its parents counts`() throws {
        let member = "12:cpu:/old\n0::/pods/worker\n"
        let filesWithQuotaOfParent = try ControlGroupFiles(
            member: member,
            quotas: ["": "max 1", "/pods": "1 1", "/pods/worker": "max 1"]
        )
        #expect(filesWithQuotaOfParent.limit.processorCount == 1)
        let filesWithOwnQuota = try ControlGroupFiles(
            member: member,
            quotas: ["/pods/worker": "1 2", "/pods": "9 1"]
        )
        #expect(filesWithOwnQuota.limit.processorCount == 1)
        // These quotas are of groups that are not above the worker's group.
        let filesWithForeignQuotas = try ControlGroupFiles(
            member: member,
            quotas: ["/other": "1 1", "/pods/worker/below": "1 1"]
        )
        #expect(filesWithForeignQuotas.limit.processorCount == Self.machineProcessorCount)
    }

    @Test func `Without control groups of version 2 there is no quota`() throws {
        #expect(
            try ControlGroupFiles(member: "4:cpu:/a\n", quotas: ["": "1 1"]).limit.processorCount
                == Self.machineProcessorCount
        )
        let unknown = ProcessorLimit(
            controlGroups: ControlGroups(
                version2Root: "/nowhere",
                version1MemoryRoot: "/nowhere",
                processGroupsFile: "/nowhere"
            ),
            statusFile: "/nowhere"
        )
        #expect(unknown.processorCount == Self.machineProcessorCount)
    }

    @Test(arguments: [
        ("Cpus_allowed:\t3", 2), ("Name:\tx\nCpus_allowed:\t1\nCpus_allowed_list:\t0", 1),
        ("Cpus_allowed:\tff,00000000,00f0f000", 16), ("Cpus_allowed:\t0", machineProcessorCount),
        ("Cpus_allowed_list:\t0", machineProcessorCount),
    ])
    func `The affinity mask has a bit for each processor`(status: String, processorCount: Int) throws {
        let groups = try ControlGroupFiles(member: "", quotas: [:])
        let file = groups.url.appendingPathComponent("status")
        try "\(status)\n".write(to: file, atomically: true, encoding: .utf8)
        var limit = groups.limit
        limit.statusFile = file.path
        #expect(limit.processorCount == processorCount)
    }
}
