import Foundation
import Testbed
import Testing

@Suite("The generated reference of records", .ownThread)
struct RecordReferenceTests {
    @Test func `The reference of records in the repository is the one that the program writes`() throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "record-reference-\(UUID())")
        defer { try? FileManager.default.removeItem(at: directory) }
        #expect(try ProgramRun.run("record-reference", directory.path).exitCode == 0)
        let names = try FileManager.default.subpathsOfDirectory(atPath: directory.path)
            .filter { $0.contains(".") }
        #expect(names.count == 10)
        for name in names {
            let writtenFile = try Data(contentsOf: directory.appending(path: name))
            let repositoryFile = try Data(contentsOf: Repository.url(name))
            #expect(writtenFile == repositoryFile, "\(name) is old; write it again: causeway record-reference")
        }
    }
}
