import ArgumentParser
import CausewayCommandLine
import Delivery
import Foundation

/// `causeway-lab backlog`: measures a worker on commands that piled up while no worker ran.
struct BacklogCommand: SeasonCommand {
    static let configuration = CommandConfiguration(
        commandName: "backlog",
        abstract: "Write a backlog of commands while no worker runs, then start a worker and measure it.",
        discussion: """
            This command uses the same processes as the demo. Phones register their tokens, the worker is stopped, and \
            a season's commands are written to Kafka. First, a client only reads the topic. Then the worker starts. \
            The command prints the number of pushes, and compares the worker's time with the time of the client.

            Example:
              causeway-lab backlog --commands 2000000 --activities 20000

            Exit codes: 0 one push for each activity, and every phone shows the final score; 1 otherwise, or a \
            process failed; 64 the command line is wrong.
            """
    )

    @Option(help: "Commands of the backlog; a multiple of the activities.")
    var commands = 2_000_000

    @Option(help: "Activities of these commands; a multiple of \(BacklogRun.matchCount).")
    var activities = 20_000

    @Option(help: "Threads of the worker; 0: one for each core.")
    var lanes = 0

    @Option(help: "Whether superseded commands get results, as in kafka.supersededResults.")
    var supersededResults = SupersededResultMode.countedWhenBehind

    @Flag(
        help:
            "Let the worker read ahead without its usual time limit. Use it on a machine with other load."
    )
    var unhurried = false

    @Option(help: ArgumentHelp("Also write the figures to this file.", valueName: "file"))
    var json: String?

    @Option(
        help: ArgumentHelp(
            "Directory of the season's two files. Default: search for them.",
            valueName: "directory"
        )
    )
    var data: String?

    @Flag(help: "Keep the directory with logs and configuration, and print its path.")
    var keep = false

    func validate() throws {
        guard activities > 0, activities % BacklogRun.matchCount == 0,
            activities / BacklogRun.matchCount <= CommandTemplate.followersMax
        else {
            let activitiesMax = BacklogRun.matchCount * CommandTemplate.followersMax
            throw ValidationError(
                "--activities must be a multiple of \(BacklogRun.matchCount), and \(activitiesMax) at most"
            )
        }
        guard commands > 0, commands % activities == 0, commands / activities <= BacklogRun.commandsPerActivityMax
        else {
            throw ValidationError(
                "--commands must be a multiple of --activities, \(BacklogRun.commandsPerActivityMax) each at most"
            )
        }
        guard (0...256).contains(lanes) else { throw ValidationError("--lanes must be 0 to 256") }
    }

    func makeReport(of figures: BacklogFigures) -> String { figures.report }

    func playSeason(_ files: SeasonFiles, on deployment: Deployment, until interruption: Interruption) throws(LabError)
        -> BacklogFigures
    {
        let backlog = try BacklogRun(
            season: files.season,
            activityCount: activities,
            commandsPerActivity: commands / activities,
            deployment: deployment,
            interruption: interruption
        )
        return try backlog.run(
            shapesPath: files.shapesPath,
            laneCount: lanes,
            supersededResults: supersededResults,
            hasUnlimitedReadAhead: unhurried
        )
    }
}
